// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gantrain {

// What went through a process group since it was made. Bytes are those of the tensors that a rank
// gave, whatever the algorithm sends of them.
struct Traffic {
  int64_t collectives = 0;
  int64_t bytes = 0;
  double launched = 0;  // monotonic_seconds() when the last one began
};

}  // namespace gantrain
