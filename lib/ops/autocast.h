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

// Convolutions and products of layers, in the type that convolution_type() says for x, to which
// weights and biases of any type are rounded; so is the result. Biases may be undefined. Twice
// differentiable.
//
// float16 on a CPU: operands and results are rounded to float16 and the arithmetic is float32's,
// because LibTorch's own backward passes there take 30 (products) to 100 times (convolutions) as
// long.
at::Tensor autocast_conv2d(const at::Tensor& x,
                           const at::Tensor& weight,  // [O, I / groups, kh, kw]
                           const at::Tensor& bias = {},
                           const ConvPlace& place = {});
at::Tensor autocast_conv_transpose2d(const at::Tensor& x,
                                     const at::Tensor& weight,  // [I, O / groups, kh, kw]
                                     const at::Tensor& bias = {},
                                     const ConvPlace& place = {});
// x [N, in], weight [out, in] -> [N, out].
at::Tensor autocast_linear(const at::Tensor& x,
                           const at::Tensor& weight,
                           const at::Tensor& bias = {});

// A convolution that belongs to no layer, such as a filter: in the type of x as it is.
at::Tensor plain_conv2d(const at::Tensor& x,
                        const at::Tensor& weight,
                        at::IntArrayRef stride,
                        int64_t groups);

}  // namespace gantrain
