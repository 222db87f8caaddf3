// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace gantrain {

struct ConvPlace {
  int64_t stride = 1;
  std::array<int64_t, 2> padding = {0, 0};  // rows, columns
  int64_t groups = 1;
};

// The convolutions and matrix products of layers. x, weight and bias, of any type, are rounded to
// the type that product_types() gives for the operands, and the result has the type that it gives
// for the result. The bias may be undefined. All of them are twice differentiable.
//
// In float16 on a CPU, operands and results are rounded to float16 but the arithmetic is done in
// float32, because there LibTorch's own float16 backward passes take 30 times (products) to 100
// times (convolutions) as long.
at::Tensor autocast_conv2d(const at::Tensor& x,
                           const at::Tensor& weight,  // [O, I / groups, kh, kw]
                           const at::Tensor& bias = {},
                           const ConvPlace& place = {});
at::Tensor autocast_conv_transpose2d(const at::Tensor& x,
                                     const at::Tensor& weight,  // [I, O / groups, kh, kw]
                                     const at::Tensor& bias = {},
                                     const ConvPlace& place = {});
// x [N, in], weight [out, in], bias [out] -> [N, out].
at::Tensor autocast_linear(const at::Tensor& x,
                           const at::Tensor& weight,
                           const at::Tensor& bias = {});

// A convolution without padding that belongs to no layer, for example with a fixed filter. It
// computes in the type of x, whatever autocast says.
at::Tensor plain_conv2d(const at::Tensor& x,
                        const at::Tensor& weight,
                        at::IntArrayRef stride,
                        int64_t groups);

}  // namespace gantrain
