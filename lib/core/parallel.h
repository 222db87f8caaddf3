// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace gantrain {

// Shares the range [begin, end) out among LibTorch's threads, which call body(from, to) for a part
// each, at least `grain` long where there are several; returns when all are done, and rethrows what
// one of them threw. Inside of another parallel region the calling thread does it all.
//
// It is LibTorch's own at::parallel_for, compiled in one place with OpenMP: in a source without
// OpenMP that template runs on one thread and says nothing.
void parallel_for(int64_t begin,
                  int64_t end,
                  int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body);

}  // namespace gantrain
