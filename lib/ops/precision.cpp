// SPDX-License-Identifier: Apache-2.0
#include "ops/precision.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include "core/forward_precision.h"

namespace gantrain {

at::ScalarType convolution_type(const at::Tensor& x) {
  if (in_float32()) return statistics_type(x.scalar_type());
  const c10::DeviceType device = x.device().type();
  // As in LibTorch, autocast leaves float64 as it is.
  const bool lowered = at::autocast::is_autocast_enabled(device) && x.scalar_type() != at::kDouble;
  return lowered ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

ProductTypes product_types(const Product& product, const at::Tensor& x, const at::Tensor& weight) {
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

}  // namespace gantrain
