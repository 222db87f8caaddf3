// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// The sums of squares over the last two axes of w [O, I, h, w]: [O, I]. Differentiable any number
// of times; w is read once forward and once backward where the device has a kernel for it.
at::Tensor square_sums(const at::Tensor& w);

}  // namespace gantrain
