// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain::stylegan2 {

// Karras et al. 2020a, sec. 3.2: |J_w^T y| for pictures [N, C, H, W] made of ws [N, L, w_dim] and
// y [N, C, H, W] ~ N(0, 1), divided by sqrt(H W): root of the mean over layers, [N].
at::Tensor path_lengths(const at::Tensor& pictures, const at::Tensor& ws, const at::Tensor& y);

}  // namespace gantrain::stylegan2
