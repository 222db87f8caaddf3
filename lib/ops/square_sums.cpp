// SPDX-License-Identifier: Apache-2.0
#include "ops/square_sums.h"

#include "core/torch.h"
#include "ops/autograd.h"
#include "ops/fused_kernels.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct ScaledPlanes;

// Sums of products over planes and planes times factors are each other's derivatives, so that two
// kernels serve derivatives of any order.
struct PlaneProducts : torch::autograd::Function<PlaneProducts> {
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b) {
    context->save_for_backward({a, b});
    context->set_materialize_grads(false);
    return fused_kernels_of(a).plane_products(a, b);
  }
  static variable_list backward(AutogradContext* context, variable_list grad);
};

struct ScaledPlanes : torch::autograd::Function<ScaledPlanes> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& w,
                        const Tensor& by,
                        double factor) {
    context->save_for_backward({w, by});
    context->set_materialize_grads(false);
    context->saved_data["factor"] = factor;
    return fused_kernels_of(w).scaled_planes(w, by, factor);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    variable_list result(3);
    if (!grad[0].defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const double factor = context->saved_data["factor"].toDouble();
    if (context->needs_input_grad(0)) result[0] = apply(grad[0], saved[1], factor);
    if (context->needs_input_grad(1)) result[1] = PlaneProducts::apply(grad[0], saved[0]) * factor;
    return result;
  }
};

variable_list PlaneProducts::backward(AutogradContext* context, variable_list grad) {
  variable_list result(2);
  if (!grad[0].defined()) return result;
  const WithoutAutocast exact;
  const variable_list saved = context->get_saved_variables();
  if (context->needs_input_grad(0)) result[0] = ScaledPlanes::apply(saved[1], grad[0], 1.0);
  if (context->needs_input_grad(1)) result[1] = ScaledPlanes::apply(saved[0], grad[0], 1.0);
  return result;
}

struct SquareSums : torch::autograd::Function<SquareSums> {
  static Tensor forward(AutogradContext* context, const Tensor& w) {
    context->save_for_backward({w});
    context->set_materialize_grads(false);
    return fused_kernels_of(w).plane_products(w, w);
  }
  static variable_list backward(AutogradContext* context, variable_list grad) {
    if (!grad[0].defined()) return {Tensor()};
    const WithoutAutocast exact;
    return {ScaledPlanes::apply(context->get_saved_variables()[0], grad[0], 2.0)};
  }
};

}  // namespace

Tensor square_sums(const Tensor& w) {
  if (!has_fused_kernel(&FusedKernels::plane_products, w)) return w.square().sum({2, 3});
  return SquareSums::apply(w);
}

}  // namespace gantrain
