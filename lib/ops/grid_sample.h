// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Samples x [N, C, H, W] bilinearly at the positions grid [N, h, w, 2], whose coordinates (x, y)
// lie in [-1, 1] (align_corners false); x counts as 0 outside. Returns [N, C, h, w]. Unlike
// LibTorch's own function it is twice differentiable in x, which R1 through a geometric
// augmentation needs. The grid gets no gradient.
at::Tensor grid_sample(const at::Tensor& x, const at::Tensor& grid);

}  // namespace gantrain
