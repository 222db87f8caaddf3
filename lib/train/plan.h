// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/options.h"

namespace gantrain {

// How one optimizer step's global batch is cut: global = ranks x accumulate x micro-batch.
struct BatchPlan {
  int64_t batch = 1;
  int64_t world = 1;
  int64_t micro_batch = 1;
  int64_t accumulate = 1;

  std::string text() const;  // "batch 64 = 2 ranks x 32", "... x 2 accumulated x 16"
};

// Makes the plan for train.batch. Throws UserError(kUsage) that names the keys, with the nearest
// batches that would do, where ranks, micro-batch or accumulation do not divide the batch.
BatchPlan plan_batch(const TrainOptions& options, int64_t world);

// Makes the plan of a stage whose batch differs from train.batch. A micro-batch that is larger than
// a rank's share becomes that share. Throws as plan_batch does, naming the stage.
BatchPlan plan_stage(const TrainOptions& options,
                     int64_t batch,
                     int64_t world,
                     const std::string& stage);

// Makes the plan of a player that has an accumulation of its own (`accumulate`); otherwise returns
// `plan`.
BatchPlan plan_player(const BatchPlan& plan,
                      const std::string& player,
                      std::optional<int64_t> accumulate);

// Names a point of the run: "000200" for 200 kimg, or "000200.160" with fractions.
std::string kimg_name(int64_t images, bool fractions);
// Whether the cadences of this run need names with fractions of a kimg.
bool needs_fractions(const TrainOptions& train, const SaveOptions& save);

}  // namespace gantrain
