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

// The adjoint of bilinear sampling: adds each number of dy [N, C, h, w] to the four pixels of
// [N, C, H, W] that it was sampled from.
Tensor scattered(const Tensor& dy, at::IntArrayRef size, const Tensor& grid) {
  // It reads no more of x than its size.
  const Tensor like = at::empty({1}, dy.options()).expand(size);
  return std::get<0>(at::grid_sampler_2d_backward(dy.contiguous(),
                                                  like,
                                                  grid,
                                                  kBilinear,
                                                  kZeros,
                                                  /*align_corners=*/false,
                                                  /*output_mask=*/{true, false}));
}

// The same in an order that is the same at every call, which LibTorch has on no GPU: sorted by
// pixel, corner after corner.
Tensor scattered_in_order(const Tensor& dy, at::IntArrayRef size, const Tensor& grid) {
  const int64_t samples = size[0], channels = size[1], height = size[2], width = size[3];
  const auto pixels = [&](int64_t axis, int64_t length) {
    return ((grid.select(3, axis) + 1) * length - 1) / 2;
  };
  const Tensor x = pixels(0, width), y = pixels(1, height);
  const Tensor rows = dy.permute({0, 2, 3, 1}).reshape({-1, channels});
  const Tensor first =
      at::arange(samples, grid.options().dtype(at::kLong)).view({-1, 1, 1}) * (height * width);
  Tensor sums = at::zeros({samples * height * width, channels}, dy.options());
  for (const int64_t down : {0, 1}) {
    for (const int64_t right : {0, 1}) {
      const Tensor column = x.floor() + right, row = y.floor() + down;
      const Tensor inside =
          (column >= 0).logical_and(column < width) & (row >= 0).logical_and(row < height);
      const Tensor share = (1 - (x - column).abs()) * (1 - (y - row).abs());
      const Tensor at = first + row.clamp(0, height - 1).to(at::kLong) * width +
                        column.clamp(0, width - 1).to(at::kLong);
      sums.index_put_({at.flatten()},
                      rows * at::where(inside, share, 0).view({-1, 1}),
                      /*accumulate=*/true);
    }
  }
  return sums.view({samples, height, width, channels}).permute({0, 3, 1, 2}).contiguous();
}

bool keeps_order() { return at::globalContext().deterministicAlgorithms(); }

// Sampling is linear in x, so its gradient is linear in dy, and the two are each other's adjoint:
// sample -> scatter -> sample -> ...
struct Sample : torch::autograd::Function<Sample> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& grid);
  static variable_list backward(AutogradContext* context, variable_list dy);
};

struct Scatter : torch::autograd::Function<Scatter> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& dy,
                        const std::vector<int64_t>& size,
                        const Tensor& grid) {
    save(context, {grid});
    return keeps_order() ? scattered_in_order(dy, size, grid) : scattered(dy, size, grid);
  }

  static variable_list backward(AutogradContext* context, variable_list v) {
    variable_list result(3);
    if (v[0].defined()) result[0] = Sample::apply(v[0], context->get_saved_variables()[0]);
    return result;
  }
};

Tensor Sample::forward(AutogradContext* context, const Tensor& x, const Tensor& grid) {
  save(context, {grid});
  hold(context, "size", x.sizes().vec());
  return at::grid_sampler_2d(x, grid, kBilinear, kZeros, /*align_corners=*/false);
}

variable_list Sample::backward(AutogradContext* context, variable_list dy) {
  variable_list result(2);
  const auto& size = held<std::vector<int64_t>>(context, "size");
  if (dy[0].defined()) result[0] = Scatter::apply(dy[0], size, context->get_saved_variables()[0]);
  return result;
}

}  // namespace

namespace {

// The shares [out, in] that the pixels of a row of `in` have in those of a row of `out`, with the
// places in float32, as torch has them there: in other types, too, so that all compute one
// function. A place is one fused multiply-add, so that it is rounded once.
Tensor bilinear_shares(int64_t in, int64_t out, Corners corners, const Tensor& like) {
  const at::TensorOptions wide = like.options().dtype(at::kDouble);
  const Tensor pixel = at::arange(out, wide);
  const auto n = static_cast<float>(in), m = static_cast<float>(out);
  const double scale = corners == Corners::kOfPixels ? n / m : out > 1 ? (n - 1) / (m - 1) : 0.F;
  const Tensor place = corners == Corners::kOfPixels ? (pixel + 0.5) * scale - 0.5 : pixel * scale;
  const Tensor at = place.to(at::kFloat).to(at::kDouble).clamp(0, n - 1);
  const Tensor apart = at.unsqueeze(1) - at::arange(in, wide);
  return (1 - apart.abs()).clamp_min(0).to(like.scalar_type());
}

}  // namespace

Tensor resized_by_products(const Tensor& x, int64_t height, int64_t width, Corners corners) {
  const WithoutAutocast exact;
  const Tensor wide = in_statistics_type(x);
  const Tensor rows = bilinear_shares(x.size(2), height, corners, wide);
  const Tensor columns = bilinear_shares(x.size(3), width, corners, wide);
  return at::matmul(at::matmul(rows, wide), columns.t()).to(x.scalar_type());
}

// LibTorch's own derivative adds in any order on a GPU, and refuses to where algorithms have to be
// deterministic; products with matrices do not. In float64 its places would be others.
Tensor resized_bilinear(const Tensor& x, int64_t height, int64_t width, Corners corners) {
  if (!x.is_cpu() || keeps_order() || x.scalar_type() == at::kDouble)
    return resized_by_products(x, height, width, corners);
  const WithoutAutocast exact;
  return at::upsample_bilinear2d(x, {height, width}, corners == Corners::kMiddles);
}

Tensor mirrored(const Tensor& x, const Padding2d& p) {
  if (!keeps_order()) return at::reflection_pad2d(x, {p.x0, p.x1, p.y0, p.y1});
  const auto along = [](const Tensor& t, int64_t axis, int64_t before, int64_t after) {
    const int64_t length = t.size(axis);
    return at::cat({t.narrow(axis, 1, before).flip(axis),
                    t,
                    t.narrow(axis, length - 1 - after, after).flip(axis)},
                   axis);
  };
  return along(along(x, 2, p.y0, p.y1), 3, p.x0, p.x1);
}

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
