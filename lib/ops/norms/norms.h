// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Returns x / sqrt(mean(x^2 over axis `dim`) + eps): pixel norm (Karras et al. 2018a, sec. 4.2),
// which StyleGAN also applies to its latents.
at::Tensor pixel_norm(const at::Tensor& x, double eps = 1e-8, int64_t dim = 1);

// Adaptive instance normalisation (Karras et al. 2019, eq. 1): (x - mean) / sqrt(variance + eps) *
// (1 + s) + b for x [N, C, H, W], with the mean and variance of each channel of each sample over
// its pixels, where style [N, 2C] holds s in its first half and b in its second. For half-precision
// x the statistics are computed in float32.
at::Tensor adain(const at::Tensor& x, const at::Tensor& style, double eps = 1e-8);

// Appends `channels` channels to x [N, C, H, W] that hold a standard deviation over samples (Karras
// et al. 2018a, sec. 3). A group is the g samples n, n + N/g, n + 2N/g, ... x's channels are cut
// into `channels` equal parts; the deviations over the group are averaged over the pixels and
// channels of a part, with 1e-8 added to the variance. g is the largest divisor of N that is at
// most `group`, so it is less than `group` where N is no multiple of it.
at::Tensor minibatch_std(const at::Tensor& x, int64_t group, int64_t channels = 1);

}  // namespace gantrain
