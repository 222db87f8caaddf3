// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>

#include "core/forward_precision.h"

namespace gantrain {

// Returns the type that a convolution of x computes in: float32 at least where the forward pass
// asks for float32 (AutocastDisabled); else autocast's type, where autocast is on for x's device;
// else x's own type. Autocast leaves float64 as it is.
at::ScalarType convolution_type(const at::Tensor& x);

// The types of one convolution or matrix product.
struct ProductTypes {
  at::ScalarType operands;
  at::ScalarType result;
  const char* why = nullptr;  // for note_computed()
};

// Returns the types that this product of x and weight computes in. Without a choice by product
// (ForwardPrecision::choice) both are convolution_type(x). With one, operands of float32 on a CPU
// may be rounded to bfloat16, and the result is float32 again.
ProductTypes product_types(const Product& product, const at::Tensor& x, const at::Tensor& weight);

// Returns the type for sums and statistics over values of `type`: float32 for half types, else
// `type` itself.
at::ScalarType statistics_type(at::ScalarType type);
at::Tensor in_statistics_type(const at::Tensor& x);

// While this object lives, autocast changes no types. Operators that have chosen their types
// themselves use it.
struct WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

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

// bias * factors.bias + x weight^T * factors.product, in the type of its arguments, whatever
// autocast says: x [N, in], weight [out, in], bias [out] -> [N, out]. Differentiable any number of
// times; where launches_cost(), the derivatives take their factors along, too.
struct LinearFactors {
  double product = 1, bias = 1;
};
at::Tensor scaled_linear(const at::Tensor& x,
                         const at::Tensor& weight,
                         const at::Tensor& bias,
                         const LinearFactors& factors);

// A convolution without padding that belongs to no layer, for example with a fixed filter. It
// computes in the type of x, whatever autocast says.
at::Tensor plain_conv2d(const at::Tensor& x,
                        const at::Tensor& weight,
                        at::IntArrayRef stride,
                        int64_t groups);

}  // namespace gantrain
