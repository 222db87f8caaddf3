// SPDX-License-Identifier: Apache-2.0
#include "gan/synthesis_options.h"

#include <algorithm>

#include "util/error.h"

namespace gantrain {

std::vector<int64_t> levels_up_to(int64_t resolution) {
  std::vector<int64_t> levels;
  for (int64_t pixels = 4; pixels <= resolution; pixels *= 2) levels.push_back(pixels);
  return levels;
}

int64_t level_of(const SynthesisOptions& options, const std::vector<int64_t>& levels) {
  if (!(options.alpha >= 0 && options.alpha <= 1))
    fail(Exit::kUsage, "--alpha {}: 0 to 1 is allowed", options.alpha);
  if (options.level == 0) return levels.back();
  if (std::find(levels.begin(), levels.end(), options.level) == levels.end()) {
    fail(Exit::kUsage,
         "--level {}: this generator's are {}",
         options.level,
         fmt::join(levels, ", "));
  }
  return options.level;
}

SynthesisOptions options_at(const Schedule& schedule, int64_t number, int64_t images_seen) {
  const Stage& stage = schedule.stages()[static_cast<size_t>(number)];
  SynthesisOptions options;
  options.level = stage.resolution;
  // The last iteration of a fade may have gone over its end.
  if (schedule.stage_at(images_seen) == number) options.alpha = schedule.alpha_at(images_seen);
  return options;
}

}  // namespace gantrain
