// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace gantrain {

// LibTorch's at::parallel_for, compiled in one place with OpenMP: in a source without OpenMP that
// template runs on one thread and says nothing. Its threads call body(from, to) for parts of
// [begin, end), at least `grain` long where there are several; inside of another parallel region
// the calling thread does it all. Rethrows what one of them threw.
void parallel_for(int64_t begin,
                  int64_t end,
                  int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body);

// From here on, operators that this thread calls use so many threads. Where gantrain has chosen how
// idle threads wait (idle_threads() of launch/where/devices.h), it is watched from now on, four
// times a second, whether this thread gets a core when it wants one; while it does not, because
// other programs compute, idle threads sleep at once.
void use_threads(int64_t threads);

}  // namespace gantrain
