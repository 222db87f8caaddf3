// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gantrain {

// What one rank has put through a process group since the group was made.
struct Traffic {
  int64_t collectives = 0;
  int64_t bytes = 0;    // of the tensors that the rank gave; the algorithm may send more or less
  double launched = 0;  // monotonic_seconds() when the last collective began
};

}  // namespace gantrain
