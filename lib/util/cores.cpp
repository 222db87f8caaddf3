// SPDX-License-Identifier: Apache-2.0
#include "util/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>

namespace gantrain {

int64_t usable_cores() {
  // Machines with more than 1024 cores need a larger mask than cpu_set_t.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20; capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int64_t count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return std::max<int64_t>(count, 1);
  }
  return 1;
}

}  // namespace gantrain
