// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Appends `channels` channels to x [N, C, H, W] that hold a standard deviation over samples (Karras
// et al. 2018a, sec. 3). A group is the g samples n, n + N/g, n + 2N/g, ... x's channels are cut
// into `channels` equal parts; the deviations over the group are averaged over the pixels and
// channels of a part, with 1e-8 added to the variance. g is the largest divisor of N that is at
// most `group`, so it is less than `group` where N is no multiple of it.
at::Tensor minibatch_std(const at::Tensor& x, int64_t group, int64_t channels = 1);

}  // namespace gantrain
