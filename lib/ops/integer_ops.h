// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Arithmetic of unsigned 64-bit numbers whose bits are held in int64 tensors, on any device. Sums
// and products wrap around with LibTorch's own operators; these functions are the ones that differ
// from their signed namesakes.

at::Tensor shifted_left(const at::Tensor& x, int64_t bits);
// The highest bits become zero.
at::Tensor shifted_right(const at::Tensor& x, int64_t bits);
// Returns the upper 64 bits of the 128-bit product.
at::Tensor multiply_high(const at::Tensor& a, const at::Tensor& b);

}  // namespace gantrain
