// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gan/schedule.h"
#include "train/plan.h"

namespace gantrain {

// A stage of growing as it will be trained.
struct StagePlan {
  Stage stage;
  BatchPlan plan;
  int64_t images = 0;  // of it, 0 if the run ends before
  int64_t iterations = 0;
};

// All stages of a schedule, up to the run's end. Throws like plan_stage (train/plan.h).
std::vector<StagePlan> plan_stages(const TrainOptions& options,
                                   const Schedule& schedule,
                                   int64_t world);

}  // namespace gantrain
