// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace gantrain {

// A path through key latents, frame by frame. It meets the keys exactly, at frames 0, frames,
// 2*frames, ... An open path ends with the last key's own frame. A closed path ends just before the
// first key's frame would come again, so that it can be played in a loop without a stop.
struct Walk {
  int64_t keys = 2;     // at least 2
  int64_t frames = 60;  // from one key to the next, at least 1
  bool loop = false;    // closed: from the last key back to the first
};

// A frame between two keys: (1 - t) of `from` and t of `to`.
struct Step {
  int64_t from = 0;
  int64_t to = 0;
  double t = 0;  // [0, 1]; 1 in an open path's last frame alone
};

int64_t frame_count(const Walk& walk);
Step step_of(const Walk& walk, int64_t frame);

// "frame0007": four digits, or as many as the last of `count` frames needs.
std::string frame_name(int64_t frame, int64_t count);

}  // namespace gantrain
