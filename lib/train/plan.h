// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/options.h"

namespace gantrain {

// How one optimizer step's global batch is cut: global = ranks x micro-batch x accumulate.
struct BatchPlan {
  int64_t batch = 1;
  int64_t world = 1;
  int64_t micro_batch = 1;
  int64_t accumulate = 1;

  std::string text() const;  // "batch 64 = 2 ranks x 32" or "... x 16 x 2 accumulated"
};

// Throws UserError(kUsage) naming the keys when the ranks, micro-batch or accumulation do not
// divide the batch, with the nearest batches that would.
BatchPlan plan_batch(const TrainOptions& options, int64_t world);

// Of a stage whose batch differs from train.batch; a micro-batch of more images than a rank has
// becomes those. Throws like plan_batch, naming the stage.
BatchPlan plan_stage(const TrainOptions& options,
                     int64_t batch,
                     int64_t world,
                     const std::string& stage);

// Cut for a player with accumulation of its own (`accumulate`), if it has one.
BatchPlan plan_player(const BatchPlan& plan,
                      const std::string& player,
                      std::optional<int64_t> accumulate);

// "000200" or, with fractions in the run's cadence, "000200.160".
std::string kimg_name(int64_t images, bool fractions);
// Whether names of this run need the three more digits.
bool needs_fractions(const TrainOptions& train, const SaveOptions& save);

}  // namespace gantrain
