// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>

namespace gantrain {

// Memory that this process has in RAM.
inline int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t whole = 0, resident = 0;
  file >> whole >> resident;
  return resident * 4096;
}

}  // namespace gantrain
