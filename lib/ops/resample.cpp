// SPDX-License-Identifier: Apache-2.0
#include "ops/resample.h"

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/operator.h"
#include "ops/upfirdn2d/upfirdn2d.h"

namespace gantrain {

namespace {

// Smallest side, at the larger scale, from which the 4x4 kernel is used. Below it, making the
// kernel costs more than it saves: with 512 channels at 8x8 it takes three times as long as the
// whole convolution; at 32x32 with few channels it halves the time.
constexpr int64_t kFusedFrom = 32;

bool fused(int64_t height, int64_t width) { return height >= kFusedFrom && width >= kFusedFrom; }

// The sum of a 3x3 kernel's four shifts by one pixel, [O, I, 4, 4]: as a product with a constant
// matrix, which is several times faster than adding four padded copies, forward and backward.
Tensor sum_of_shifts(const Tensor& weight, bool mirrored, double factor) {
  const WithoutAutocast exact;
  const Tensor one = at::eye(4, weight.options());
  const Tensor shifts = one.narrow(0, 0, 3) + one.narrow(0, 1, 3);  // [3, 4]
  Tensor matrix = at::kron(shifts, shifts) * factor;
  if (mirrored) matrix = matrix.flip(0);
  return at::matmul(weight.reshape({-1, 9}), matrix)
      .reshape({weight.size(0), weight.size(1), 4, 4});
}

// [1, 2, 1] x [1, 2, 1] / 16, computed on the device of x: a copy from the host would wait for the
// device.
Tensor binomial(const Tensor& x) {
  const Tensor places = at::arange(3, x.options().dtype(statistics_type(x.scalar_type())));
  const Tensor row = (2 - (places - 1).abs()) / 4;
  return at::outer(row, row);
}

}  // namespace

Tensor nearest_up(const Tensor& x) {
  return at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)});
}

Tensor box_down(const Tensor& x) { return at::avg_pool2d(x, 2); }

Tensor blur(const Tensor& x) { return filter2d(x, binomial(x)); }

Tensor conv2d_up(const Tensor& x, const Tensor& weight) {
  if (!fused(2 * x.size(2), 2 * x.size(3)))
    return autocast_conv2d(nearest_up(x), weight, {}, {.padding = {1, 1}});
  const Tensor kernel = sum_of_shifts(weight, /*mirrored=*/true, 1).transpose(0, 1);
  return autocast_conv_transpose2d(x, kernel, {}, {.stride = 2, .padding = {1, 1}});
}

Tensor conv2d_down(const Tensor& x, const Tensor& weight) {
  if (!fused(x.size(2), x.size(3)))
    return box_down(autocast_conv2d(x, weight, {}, {.padding = {1, 1}}));
  const Tensor kernel = sum_of_shifts(weight, /*mirrored=*/false, 0.25);
  return autocast_conv2d(x, kernel, {}, {.stride = 2, .padding = {1, 1}});
}

Tensor fade_reals(const Tensor& x, const DeviceNumber& alpha) {
  if (alpha.host() == 1) return x;
  return alpha.lerp(nearest_up(box_down(x)), x);
}

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
    save(context, {grid});
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
  save(context, {x.detach(), grid});
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
