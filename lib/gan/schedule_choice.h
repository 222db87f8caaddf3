// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "gan/schedule.h"
#include "util/size.h"

namespace gantrain {

// One row of a recipe's table: the batch and learning rates that its authors used with `ranks`
// devices or more.
struct ScheduleRow {
  int64_t ranks;
  std::string batch, lr_factor;  // as in ScheduleOptions
};

// Fills in schedule.batch, schedule.lr_factor and train.batch (the first stage's batch) for that
// many ranks, where the user has not given them. If the user has given train.batch, this batch is
// used in all stages, and train.lr_scale then scales each stage's learning rates. Batches become
// multiples of the number of ranks, and multiples of 4 images per rank where they are that large
// (the group of the minibatch standard deviation). Origins of chosen values begin with "auto";
// values that already have such an origin stay. Returns lines that say what was chosen and why.
std::vector<std::string> choose_schedule(Config& config,
                                         int64_t ranks,
                                         const std::vector<ScheduleRow>& rows);

// Returns the schedule of a complete configuration. Throws UserError(kUsage) that names the key
// that does not fit.
Schedule schedule_of(const Config& config);

// Throws UserError(kUsage) unless networks that double their size can end at `resolution`: a square
// whose side is a power of two from 4 to 1024.
void check_growing_resolution(const Size& resolution);

}  // namespace gantrain
