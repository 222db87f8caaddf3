// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Bilinear samples of x [N, C, H, W] at grid [N, h, w, 2] in [-1, 1] (align_corners false), 0
// outside. Unlike LibTorch's own it is twice differentiable in x, which R1 through a geometric
// augmentation needs; the grid gets no gradient.
at::Tensor grid_sample(const at::Tensor& x, const at::Tensor& grid);

}  // namespace gantrain
