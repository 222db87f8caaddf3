// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.h"

#include <ATen/Parallel.h>

namespace gantrain {

void parallel_for(int64_t begin,
                  int64_t end,
                  int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body) {
  at::parallel_for(begin, end, grain, body);
}

}  // namespace gantrain
