// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Returns x / sqrt(mean(x^2 over axis `dim`) + eps): pixel norm (Karras et al. 2018a, sec. 4.2),
// which StyleGAN also applies to its latents.
at::Tensor pixel_norm(const at::Tensor& x, double eps = 1e-8, int64_t dim = 1);

}  // namespace gantrain
