// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gan/schedule.h"
#include "train/plan.h"

namespace gantrain {

// How a stage of growth will be trained.
struct StagePlan {
  Stage stage;
  BatchPlan plan;
  int64_t images = 0;  // images trained in it; 0 if the run ends before
  int64_t iterations = 0;
};

// Plans all stages of a schedule up to the run's end. Throws as plan_stage does (train/plan.h).
std::vector<StagePlan> plan_stages(const TrainOptions& options,
                                   const Schedule& schedule,
                                   int64_t world);

}  // namespace gantrain
