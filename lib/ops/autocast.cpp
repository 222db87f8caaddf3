// SPDX-License-Identifier: Apache-2.0
#include "ops/autocast.h"

#include "core/forward_precision.h"
#include "core/torch.h"
#include "ops/convolution.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;

namespace {

Tensor rounded(const Tensor& t, at::ScalarType type) { return t.defined() ? t.to(type) : t; }

Product product_of(Product::Kind kind,
                   const Tensor& x,
                   const Tensor& weight,
                   const ConvPlace& place = {}) {
  Product p{kind, {}, {}, place.stride, place.padding, place.groups};
  if (kind == Product::Kind::kLinear) {
    p.input = {x.size(-1), 1, 1};
    p.weight = {weight.size(0), weight.size(1), 1, 1};
  } else {
    p.input = {x.size(1), x.size(2), x.size(3)};
    p.weight = {weight.size(0), weight.size(1), weight.size(2), weight.size(3)};
  }
  return p;
}

// compute(x, weight, bias) on operands of types.operands, as types.result. The conversions are
// nodes of the graph, so that gradients are rounded where float16's own would be, to any order.
template <class Compute>
Tensor in_type(const ProductTypes& types,
               const Tensor& x,
               const Tensor& weight,
               const Tensor& bias,
               const Compute& compute) {
  const WithoutAutocast exact;
  const at::ScalarType type = types.operands;
  const Tensor a = rounded(x, type), w = rounded(weight, type), b = rounded(bias, type);
  if (type != at::kHalf || !x.device().is_cpu()) return compute(a, w, b).to(types.result);
  return compute(rounded(a, at::kFloat), rounded(w, at::kFloat), rounded(b, at::kFloat)).to(type);
}

}  // namespace

Tensor autocast_conv2d(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const ConvPlace& place) {
  const ProductTypes types =
      product_types(product_of(Product::Kind::kConv2d, x, weight, place), x, weight);
  note_computed(types.operands, types.why);
  return in_type(
      types, x, weight, bias, [&place](const Tensor& a, const Tensor& w, const Tensor& b) {
        return conv2d(a, w, b, place);
      });
}

Tensor autocast_conv_transpose2d(const Tensor& x,
                                 const Tensor& weight,
                                 const Tensor& bias,
                                 const ConvPlace& place) {
  const ProductTypes types =
      product_types(product_of(Product::Kind::kConvTranspose2d, x, weight, place), x, weight);
  note_computed(types.operands, types.why);
  return in_type(
      types, x, weight, bias, [&place](const Tensor& a, const Tensor& w, const Tensor& b) {
        return conv_transpose2d(a, w, b, place);
      });
}

Tensor autocast_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const ProductTypes types =
      product_types(product_of(Product::Kind::kLinear, x, weight), x, weight);
  note_computed(types.operands, types.why);
  return in_type(types, x, weight, bias, [](const Tensor& a, const Tensor& w, const Tensor& b) {
    return b.defined() ? at::linear(a, w, b) : at::matmul(a, w.t());
  });
}

Tensor plain_conv2d(const Tensor& x, const Tensor& weight, at::IntArrayRef stride, int64_t groups) {
  return in_type(
      {x.scalar_type(), x.scalar_type()},
      x,
      weight,
      {},
      [&](const Tensor& a, const Tensor& w, const Tensor&) {
        return at::conv2d(a, w, {}, stride, at::IntArrayRef({0, 0}), /*dilation=*/1, groups);
      });
}

}  // namespace gantrain
