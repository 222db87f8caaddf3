// SPDX-License-Identifier: Apache-2.0
#include "ops/pixel_norm.h"

#include "core/torch.h"
#include "ops/autograd.h"
#include "ops/fused_kernels.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// With r = 1 / sqrt(mean(x^2) + eps): dx = r dy - x r^3 mean(dy x), out of operators that are
// differentiable again.
Tensor composed_gradient(const Tensor& dy_in, const Tensor& x_in, double eps) {
  const at::ScalarType type = statistics_type(x_in.scalar_type());
  const Tensor dy = dy_in.to(type), x = x_in.to(type);
  const Tensor r = (x.square().mean(1, /*keepdim=*/true) + eps).rsqrt();
  const Tensor dx = r * (dy - x * r.square() * (dy * x).mean(1, /*keepdim=*/true));
  return dx.to(x_in.scalar_type());
}

struct PixelNormFunction : torch::autograd::Function<PixelNormFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, double eps) {
    context->save_for_backward({x});
    context->set_materialize_grads(false);
    context->saved_data["eps"] = eps;
    return fused_kernels_of(x).pixel_norm(x, eps);
  }

  static variable_list backward(AutogradContext* context, variable_list dy) {
    variable_list result(2);
    if (!dy[0].defined()) return result;
    const WithoutAutocast exact;
    const Tensor x = context->get_saved_variables()[0];
    const double eps = context->saved_data["eps"].toDouble();
    result[0] = at::GradMode::is_enabled() ? composed_gradient(dy[0], x, eps)
                                           : fused_kernels_of(x).pixel_norm_gradient(dy[0], x, eps);
    return result;
  }
};

}  // namespace

Tensor pixel_norm(const Tensor& x, double eps, int64_t dim) {
  const WithoutAutocast exact;
  if (x.dim() == 4 && dim == 1 && has_fused_kernel(&FusedKernels::pixel_norm, x))
    return PixelNormFunction::apply(x, eps);
  const Tensor wide = x.to(statistics_type(x.scalar_type()));
  const Tensor square = wide.square().mean(dim, /*keepdim=*/true);
  return (wide * (square + eps).rsqrt()).to(x.scalar_type());
}

}  // namespace gantrain
