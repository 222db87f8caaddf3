// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// (x - mean) / sqrt(variance + eps) of each sample and channel of x [N, C, H, W].
at::Tensor instance_norm(const at::Tensor& x, double eps = 1e-8);

// x * (1 + s) + b with style = (s, b) [N, 2C]: Karras et al. 2019, eq. 1, after the normalisation.
at::Tensor modulate(const at::Tensor& x, const at::Tensor& style);

// modulate(instance_norm(x), style): adaptive instance normalisation (Karras et al. 2019, eq. 1).
// Statistics are taken in float32 where x has less.
at::Tensor adain(const at::Tensor& x, const at::Tensor& style, double eps = 1e-8);

}  // namespace gantrain
