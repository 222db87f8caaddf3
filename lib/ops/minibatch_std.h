// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Karras et al. 2018a, sec. 3: x [N, C, H, W] with `channels` more that hold the standard deviation
// over groups of g samples n, n + N/g, n + 2N/g, ... (strided), averaged over the group's channels
// and pixels, eps 1e-8 below the root. g is the largest divisor of N that is at most `group`: less
// than `group` for a batch that is no multiple of it.
at::Tensor minibatch_std(const at::Tensor& x, int64_t group, int64_t channels = 1);

}  // namespace gantrain
