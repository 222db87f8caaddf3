// SPDX-License-Identifier: Apache-2.0
#include "ops/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include "core/torch.h"
#include "ops/convolution/convolution.h"
#include "ops/device_kernels.h"
#include "ops/operator.h"

namespace gantrain {

at::ScalarType convolution_type(const Tensor& x) {
  if (in_float32()) return statistics_type(x.scalar_type());
  const c10::DeviceType device = x.device().type();
  // As in LibTorch, autocast leaves float64 as it is. It knows no meta device.
  const bool lowered =
      !x.is_meta() && at::autocast::is_autocast_enabled(device) && x.scalar_type() != at::kDouble;
  return lowered ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

ProductTypes product_types(const Product& product, const Tensor& x, const Tensor& weight) {
  const at::ScalarType type = convolution_type(x);
  if (type != at::kFloat || !x.is_cpu() || !chooses_products()) return {type, type};
  const bool recorded = at::GradMode::is_enabled();
  ProductUses once;
  once.samples = product.kind == Product::Kind::kLinear ? x.numel() / x.size(-1) : x.size(0);
  once.forward = 1;
  once.input_gradient = recorded && x.requires_grad() ? 1 : 0;
  once.weight_gradient = recorded && weight.requires_grad() ? 1 : 0;
  if (lowers_product(product, once))
    return {at::kBFloat16, at::kFloat, "measured: faster in bfloat16"};
  return {at::kFloat, at::kFloat, "measured: not faster in bfloat16"};
}

at::ScalarType statistics_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

Tensor in_statistics_type(const Tensor& x) { return x.to(statistics_type(x.scalar_type())); }

namespace {

Tensor rounded(const Tensor& t, at::ScalarType type) { return t.defined() ? t.to(type) : t; }

Product product_of(Product::Kind kind,
                   const Tensor& x,
                   const Tensor& weight,
                   const ConvPlace& place) {
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

// The product compute(x, weight, bias, place) on operands of the types that it has.
template <class Compute>
Tensor as_product(Product::Kind kind,
                  const Tensor& x,
                  const Tensor& weight,
                  const Tensor& bias,
                  const ConvPlace& place,
                  const Compute& compute) {
  const ProductTypes types = product_types(product_of(kind, x, weight, place), x, weight);
  note_computed(types.operands, types.why);
  return in_type(types, x, weight, bias, [&](const Tensor& a, const Tensor& w, const Tensor& b) {
    return compute(a, w, b, place);
  });
}

}  // namespace

Tensor autocast_conv2d(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const ConvPlace& place) {
  return as_product(Product::Kind::kConv2d, x, weight, bias, place, conv2d);
}

Tensor autocast_conv_transpose2d(const Tensor& x,
                                 const Tensor& weight,
                                 const Tensor& bias,
                                 const ConvPlace& place) {
  return as_product(Product::Kind::kConvTranspose2d, x, weight, bias, place, conv_transpose2d);
}

Tensor autocast_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto linear = [](const Tensor& a, const Tensor& w, const Tensor& b, const ConvPlace&) {
    return b.defined() ? at::linear(a, w, b) : at::matmul(a, w.t());
  };
  return as_product(Product::Kind::kLinear, x, weight, bias, {}, linear);
}

namespace {

// alpha a b, whose derivatives are products of the same kind. Those that LibTorch has of at::addmm
// multiply by alpha in a kernel of their own.
struct ScaledProduct : torch::autograd::Function<ScaledProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b, double alpha) {
    save(context, {a, b});
    context->saved_data["alpha"] = alpha;
    return at::addmm(at::empty({1, 1}, a.options()), a, b, /*beta=*/0, alpha);
  }

  static variable_list backward(AutogradContext* context, variable_list gradient) {
    variable_list result(3);
    const Tensor& g = gradient[0];
    if (!g.defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const double alpha = context->saved_data["alpha"].toDouble();
    if (context->needs_input_grad(0)) result[0] = apply(g, saved[1].t(), alpha);
    if (context->needs_input_grad(1)) result[1] = apply(saved[0].t(), g, alpha);
    return result;
  }
};

struct ScaledLinear : torch::autograd::Function<ScaledLinear> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& x,
                        const Tensor& weight,
                        const Tensor& bias,
                        const LinearFactors& factors) {
    save(context, {x, weight});
    hold(context, "factors", factors);
    return at::addmm(bias, x, weight.t(), factors.bias, factors.product);
  }

  static variable_list backward(AutogradContext* context, variable_list gradient) {
    variable_list result(4);
    const Tensor& g = gradient[0];
    if (!g.defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const auto& factors = held<LinearFactors>(context, "factors");
    const auto product = [&](const Tensor& a, const Tensor& b) {
      return ScaledProduct::apply(a, b, factors.product);
    };
    if (context->needs_input_grad(0)) result[0] = product(g, saved[1]);
    if (context->needs_input_grad(1)) result[1] = product(g.t(), saved[0]);
    if (context->needs_input_grad(2))
      result[2] = factors.bias == 1 ? g.sum(0) : g.sum(0) * factors.bias;
    return result;
  }
};

}  // namespace

Tensor scaled_linear(const Tensor& x,
                     const Tensor& weight,
                     const Tensor& bias,
                     const LinearFactors& factors) {
  const WithoutAutocast exact;
  if (launches_cost(x)) return ScaledLinear::apply(x, weight, bias, factors);
  return at::addmm(bias, x, weight.t(), factors.bias, factors.product);
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
