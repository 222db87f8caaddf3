// SPDX-License-Identifier: Apache-2.0
#include "ops/affine_warp/affine_warp.h"

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/device_kernels.h"
#include "ops/operator.h"

namespace gantrain {

namespace {

// Linear in x: warp and adjoint are each other's derivative.
struct Warp : torch::autograd::Function<Warp> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const AffineWarp& how);
  static variable_list backward(AutogradContext* context, variable_list dy);
};

struct WarpAdjoint : torch::autograd::Function<WarpAdjoint> {
  static Tensor forward(AutogradContext* context, const Tensor& dy, const AffineWarp& how) {
    save(context, {});
    hold(context, "how", how);
    return fused_kernels_of(dy).affine_warp_adjoint(dy, how);
  }

  static variable_list backward(AutogradContext* context, variable_list v) {
    variable_list result(2);
    if (!v[0].defined()) return result;
    const WithoutAutocast exact;
    result[0] = Warp::apply(v[0], held<AffineWarp>(context, "how"));
    return result;
  }
};

Tensor Warp::forward(AutogradContext* context, const Tensor& x, const AffineWarp& how) {
  save(context, {});
  hold(context, "how", how);
  return fused_kernels_of(x).affine_warp(x, how);
}

variable_list Warp::backward(AutogradContext* context, variable_list dy) {
  variable_list result(2);
  if (!dy[0].defined()) return result;
  const WithoutAutocast exact;
  result[0] = WarpAdjoint::apply(dy[0], held<AffineWarp>(context, "how"));
  return result;
}

}  // namespace

bool has_affine_warp(const Tensor& x) {
  // The kernels know both types, and half types are no case of theirs.
  const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble;
  return type && has_fused_kernel(&FusedKernels::affine_warp, x, at::kFloat);
}

Tensor affine_warp(const Tensor& x, const AffineWarp& how) {
  TORCH_CHECK(x.dim() == 4 && x.size(2) > 0 && x.size(3) > 0, "affine_warp: x ", x.sizes());
  TORCH_CHECK(how.transforms.sizes() == at::IntArrayRef({x.size(0), 9}) &&
                  how.transforms.scalar_type() == at::kDouble,
              "affine_warp: transforms ",
              how.transforms.toString());
  TORCH_CHECK(
      how.margins.sizes() == at::IntArrayRef({4}) && how.margins.scalar_type() == at::kDouble,
      "affine_warp: margins ",
      how.margins.toString());
  const WithoutAutocast exact;
  const AffineWarp kept{
      how.filter, how.transforms.detach().contiguous(), how.margins.detach().contiguous()};
  return Warp::apply(x, kept);
}

}  // namespace gantrain
