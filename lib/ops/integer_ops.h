// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Arithmetic of unsigned 64-bit numbers on int64 tensors of their bits, on any device: sums and
// products wrap around as LibTorch has them; these are what differs from signed numbers.

at::Tensor shifted_left(const at::Tensor& x, int64_t bits);
// Zeros come in from the left.
at::Tensor shifted_right(const at::Tensor& x, int64_t bits);
// The upper 64 of the 128 bits of a product.
at::Tensor multiply_high(const at::Tensor& a, const at::Tensor& b);

}  // namespace gantrain
