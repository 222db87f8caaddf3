// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "gan/schedule.h"

namespace gantrain {

// One row of a progressive recipe's table: what its authors used from so many devices on.
struct ScheduleRow {
  int64_t ranks;
  std::string batch, lr_factor;  // as in ScheduleOptions
};

// Fills in schedule.batch, schedule.lr_factor and train.batch (that of the first stage) where the
// user has not, for that many ranks. A train.batch of the user's replaces the whole table of
// batches, and train.lr_scale then moves the rates of each stage. Batches become multiples of the
// ranks, and of 4 images a rank where they are that large (the group of the minibatch standard
// deviation). Origins begin with "auto"; what has such an origin stays. Returns lines that say what
// was chosen and why.
std::vector<std::string> choose_schedule(Config& config,
                                         int64_t ranks,
                                         const std::vector<ScheduleRow>& rows);

// The schedule of a complete configuration; throws UserError(kUsage) naming the key that does not
// fit.
Schedule schedule_of(const Config& config);

// Throws UserError(kUsage) unless networks that double their size can end at `resolution` pixels: a
// power of two from 4 to 1024.
void check_growing_resolution(int64_t resolution);

}  // namespace gantrain
