// SPDX-License-Identifier: Apache-2.0
#include "draw/walk.h"

#include <fmt/format.h>

#include <algorithm>

namespace gantrain {

int64_t frame_count(const Walk& walk) {
  return walk.loop ? walk.keys * walk.frames : (walk.keys - 1) * walk.frames + 1;
}

Step step_of(const Walk& walk, int64_t frame) {
  int64_t from = frame / walk.frames;
  int64_t part = frame % walk.frames;
  if (!walk.loop && from == walk.keys - 1) {
    --from;
    part = walk.frames;
  }
  return {
      from, (from + 1) % walk.keys, static_cast<double>(part) / static_cast<double>(walk.frames)};
}

std::string frame_name(int64_t frame, int64_t count) {
  const size_t digits = std::max<size_t>(4, std::to_string(count - 1).size());
  return fmt::format("frame{:0{}}", frame, digits);
}

}  // namespace gantrain
