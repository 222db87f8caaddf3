// SPDX-License-Identifier: Apache-2.0
#include "ops/autocast.h"

#include <torch/torch.h>

#include "core/forward_precision.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;

namespace {

Tensor rounded(const Tensor& t, at::ScalarType type) { return t.defined() ? t.to(type) : t; }

// compute(x, weight, bias) on operands of that type. The conversions are nodes of the graph, so
// that gradients are rounded where float16's own would be, to any order.
template <class Compute>
Tensor in_type(at::ScalarType type,
               const Tensor& x,
               const Tensor& weight,
               const Tensor& bias,
               const Compute& compute) {
  const WithoutAutocast exact;
  const Tensor a = rounded(x, type), w = rounded(weight, type), b = rounded(bias, type);
  if (type != at::kHalf || !x.device().is_cpu()) return compute(a, w, b);
  return compute(rounded(a, at::kFloat), rounded(w, at::kFloat), rounded(b, at::kFloat)).to(type);
}

}  // namespace

Tensor autocast_conv2d(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const ConvPlace& place) {
  const at::ScalarType type = convolution_type(x);
  note_computed(type);
  return in_type(
      type, x, weight, bias, [&place](const Tensor& a, const Tensor& w, const Tensor& b) {
        return at::conv2d(a, w, b, place.stride, place.padding, /*dilation=*/1, place.groups);
      });
}

Tensor autocast_conv_transpose2d(const Tensor& x,
                                 const Tensor& weight,
                                 const Tensor& bias,
                                 const ConvPlace& place) {
  const at::ScalarType type = convolution_type(x);
  note_computed(type);
  return in_type(
      type, x, weight, bias, [&place](const Tensor& a, const Tensor& w, const Tensor& b) {
        return at::conv_transpose2d(
            a, w, b, place.stride, place.padding, /*output_padding=*/0, place.groups);
      });
}

Tensor autocast_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const at::ScalarType type = convolution_type(x);
  note_computed(type);
  return in_type(type, x, weight, bias, [](const Tensor& a, const Tensor& w, const Tensor& b) {
    return b.defined() ? at::linear(a, w, b) : at::matmul(a, w.t());
  });
}

Tensor plain_conv2d(const Tensor& x, const Tensor& weight, at::IntArrayRef stride, int64_t groups) {
  return in_type(
      x.scalar_type(), x, weight, {}, [&](const Tensor& a, const Tensor& w, const Tensor&) {
        return at::conv2d(a, w, {}, stride, at::IntArrayRef({0, 0}), /*dilation=*/1, groups);
      });
}

}  // namespace gantrain
