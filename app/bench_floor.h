// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "bench_record.h"
#include "config/value.h"

namespace gantrain {

// Returns the floor of a training step: each of its convolutions and matrix products alone, on
// fresh tensors, with the threads that are set. A convolution, and each of the two gradients of its
// backward pass, is computed by every algorithm that there is here (LibTorch's, as a convolution or
// as another one's gradient, and gantrain's own) in the layouts contiguous and channels-last, and
// the shortest time counts. Depthwise convolutions do not count, because they are filters, which
// are limited by memory. Returns {"phases": {name: seconds in an iteration with all phases},
// "calls": [{"call", "calls", "seconds", "how"}]}, the longest first.
Json floor_of(const std::vector<ProductCalls>& calls);

}  // namespace gantrain
