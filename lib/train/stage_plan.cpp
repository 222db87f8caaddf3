// SPDX-License-Identifier: Apache-2.0
#include "train/stage_plan.h"

#include <algorithm>

namespace gantrain {

std::vector<StagePlan> plan_stages(const TrainOptions& options,
                                   const Schedule& schedule,
                                   int64_t world) {
  const int64_t end = options.kimg.images;
  std::vector<StagePlan> plans;
  for (size_t i = 0; i < schedule.stages().size(); ++i) {
    const Stage& stage = schedule.stages()[i];
    const bool last = i + 1 == schedule.stages().size();
    const int64_t from = std::min(stage.first, end);
    const int64_t to = last ? end : std::min(stage.first + stage.length, end);
    const std::string name = schedule.name_of(static_cast<int64_t>(i));
    plans.push_back({stage,
                     plan_stage(options, stage.batch, world, name),
                     to - from,
                     schedule.iterations_to(to) - schedule.iterations_to(from)});
  }
  return plans;
}

}  // namespace gantrain
