// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain::stylegan2 {

// Mescheder et al. 2018, eq. 9: squared length of D's gradient at real pictures, [N]. x [N, C, H,
// W] asks for gradients, scores [N, ...] are D's of it. Twice differentiable.
at::Tensor squared_gradient(const at::Tensor& scores, const at::Tensor& x);

// Karras et al. 2020a, sec. 3.2: |J_w^T y| for pictures [N, C, H, W] made of ws [N, L, w_dim] and
// y [N, C, H, W] ~ N(0, 1), divided by sqrt(H W): root of the mean over layers, [N].
at::Tensor path_lengths(const at::Tensor& pictures, const at::Tensor& ws, const at::Tensor& y);

}  // namespace gantrain::stylegan2
