// SPDX-License-Identifier: Apache-2.0
#include "dry_run.h"

#include "train/plan.h"
#include "util/text.h"

namespace gantrain {

int dry_run(const Launch& launch, bool json) {
  const auto train = launch.config.read<TrainOptions>("train.");
  const auto save = launch.config.read<SaveOptions>("save.");
  const BatchPlan plan = plan_batch(train, launch.world.world_size);
  const int64_t iterations = (train.kimg.images + train.batch - 1) / train.batch;
  const std::string device(names(launch.device)[static_cast<size_t>(launch.device)]);
  const std::string backend(names(launch.backend)[static_cast<size_t>(launch.backend)]);
  if (json) {
    Json out = launch.config.to_json();
    out["schedule"] = {{"ranks", plan.world},
                       {"batch", plan.batch},
                       {"micro_batch", plan.micro_batch},
                       {"accumulate", plan.accumulate},
                       {"iterations", iterations},
                       {"images", iterations * train.batch},
                       {"device", device},
                       {"backend", backend},
                       {"environment", launch.world.source},
                       {"chosen", launch.chosen}};
    fmt::print("{}\n", out.dump());
    return 0;
  }
  for (const Key& key : launch.config.schema()) {
    fmt::print("{:<30} {:<16} {}\n",
               key.path,
               text_of(launch.config.get(key.path)),
               launch.config.origin(key.path));
  }
  for (const std::string& line : launch.chosen) fmt::print("\n{}", line);
  fmt::print("\n{}\n", plan.text());
  fmt::print("{} iterations, {} kimg; a state every {} kimg\n",
             iterations,
             number(static_cast<double>(iterations * train.batch) / 1e3),
             number(static_cast<double>(save.every.images) / 1e3));
  fmt::print("{} on {} node{} ({}), device {}, backend {}\n",
             plan.world == 1 ? "1 rank" : fmt::format("{} ranks", plan.world),
             launch.world.nnodes,
             launch.world.nnodes == 1 ? "" : "s",
             launch.world.source,
             device,
             plan.world == 1 ? "none" : backend);
  return 0;
}

}  // namespace gantrain
