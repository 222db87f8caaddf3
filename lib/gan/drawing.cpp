// SPDX-License-Identifier: Apache-2.0
#include "gan/drawing.h"

#include <algorithm>

#include "util/error.h"

namespace gantrain {

std::vector<int64_t> levels_up_to(int64_t resolution) {
  std::vector<int64_t> levels;
  for (int64_t pixels = 4; pixels <= resolution; pixels *= 2) levels.push_back(pixels);
  return levels;
}

int64_t level_of(const Drawing& drawing, const std::vector<int64_t>& levels) {
  if (!(drawing.alpha >= 0 && drawing.alpha <= 1))
    fail(Exit::kUsage, "--alpha {}: 0 to 1 is allowed", drawing.alpha);
  if (drawing.level == 0) return levels.back();
  if (std::find(levels.begin(), levels.end(), drawing.level) == levels.end()) {
    fail(Exit::kUsage,
         "--level {}: this generator's are {}",
         drawing.level,
         fmt::join(levels, ", "));
  }
  return drawing.level;
}

Drawing drawing_at(const Schedule& schedule, int64_t number, int64_t images_seen) {
  const Stage& stage = schedule.stages()[static_cast<size_t>(number)];
  Drawing drawing;
  drawing.level = stage.resolution;
  // The last iteration of a fade may have gone over its end.
  if (schedule.stage_at(images_seen) == number) drawing.alpha = schedule.alpha_at(images_seen);
  return drawing;
}

}  // namespace gantrain
