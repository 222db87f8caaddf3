// SPDX-License-Identifier: Apache-2.0
#include "ops/grid_sample.h"

#include "core/torch.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// grid_sampler's codes.
constexpr int64_t kBilinear = 0, kZeros = 0;

// Sampling is linear in x, so its gradient is linear in dy, and the two are each other's adjoint:
// sample -> scatter -> sample -> ...
struct Sample : torch::autograd::Function<Sample> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& grid);
  static variable_list backward(AutogradContext* context, variable_list dy);
};

struct Scatter : torch::autograd::Function<Scatter> {
  // x gives its size only.
  static Tensor forward(AutogradContext* context,
                        const Tensor& dy,
                        const Tensor& x,
                        const Tensor& grid) {
    context->save_for_backward({grid});
    context->set_materialize_grads(false);
    return std::get<0>(at::grid_sampler_2d_backward(dy.contiguous(),
                                                    x,
                                                    grid,
                                                    kBilinear,
                                                    kZeros,
                                                    /*align_corners=*/false,
                                                    /*output_mask=*/{true, false}));
  }

  static variable_list backward(AutogradContext* context, variable_list v) {
    variable_list result(3);
    if (v[0].defined()) result[0] = Sample::apply(v[0], context->get_saved_variables()[0]);
    return result;
  }
};

Tensor Sample::forward(AutogradContext* context, const Tensor& x, const Tensor& grid) {
  context->save_for_backward({x.detach(), grid});
  context->set_materialize_grads(false);
  return at::grid_sampler_2d(x, grid, kBilinear, kZeros, /*align_corners=*/false);
}

variable_list Sample::backward(AutogradContext* context, variable_list dy) {
  variable_list result(2);
  const variable_list saved = context->get_saved_variables();
  if (dy[0].defined()) result[0] = Scatter::apply(dy[0], saved[0], saved[1]);
  return result;
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid) {
  TORCH_CHECK(x.dim() == 4 && grid.dim() == 4 && grid.size(3) == 2 && grid.size(0) == x.size(0),
              "grid_sample takes [N, C, H, W] and [N, h, w, 2], not ",
              x.sizes(),
              " and ",
              grid.sizes());
  const WithoutAutocast exact;
  // Coordinates of half precision would be off by pixels.
  const at::ScalarType type = statistics_type(x.scalar_type());
  return Sample::apply(x.to(type), grid.detach().to(type)).to(x.scalar_type());
}

}  // namespace gantrain
