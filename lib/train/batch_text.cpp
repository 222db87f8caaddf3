// SPDX-License-Identifier: Apache-2.0
#include "train/batch_text.h"

#include "util/text.h"

namespace gantrain {

std::string batch_text(const BatchPlan& plan, const Config& config) {
  std::string text = plan.text();
  for (const Key& key : config.schema()) {
    if (!ends_with(key.path, ".accumulate") || key.path == "train.accumulate") continue;
    const Json& value = config.get(key.path);
    if (!value.is_number()) continue;
    const std::string player = key.path.substr(0, key.path.find('.'));
    const BatchPlan own = plan_player(plan, player, value.get<int64_t>());
    if (own.accumulate == plan.accumulate) continue;
    text += fmt::format("; {}: {} accumulated x {}", player, own.accumulate, own.micro_batch);
  }
  return text;
}

}  // namespace gantrain
