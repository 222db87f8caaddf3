// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/parallel.h"
#include "core/torch.h"
#include "cpu_kernels/kernels.h"
#include "ops/cpu_fused.h"

namespace gantrain {

using at::Tensor;

namespace {

// Calls kernel(begin, end) on parts of [0, count), in as many threads as the work is worth.
template <class Kernel>
void shared_out(int64_t count, int64_t numbers_each, const Kernel& kernel) {
  constexpr int64_t kGrain = 16384;  // numbers that a thread is worth
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, numbers_each));
  parallel_for(0, count, grain, kernel);
}

MinibatchStd sizes_of(const Tensor& x, int64_t g, int64_t parts, double eps) {
  const int64_t pixels = x.size(2) * x.size(3);
  return {g, x.size(0) / g, parts, x.size(1) / parts * pixels, pixels, static_cast<float>(eps)};
}

NormMaps maps_of(const Tensor& x, double eps) {
  return {x.size(1), x.size(2) * x.size(3), static_cast<float>(eps)};
}

int64_t bands_of(const NormMaps& maps) { return (maps.pixels + kPixelBand - 1) / kPixelBand; }

}  // namespace

Tensor cpu_minibatch_std(const Tensor& x_in, int64_t g, int64_t channels, double eps) {
  const Tensor x = x_in.contiguous();
  const MinibatchStd how = sizes_of(x, g, channels, eps);
  Tensor out = at::empty({x.size(0), x.size(1) + channels, x.size(2), x.size(3)}, x.options());
  const auto* from = x.const_data_ptr<float>();
  auto* to = out.mutable_data_ptr<float>();
  shared_out(how.groups * how.parts, g * how.length, [&](int64_t begin, int64_t end) {
    cpu_kernels().minibatch_std.forward(how, from, to, begin, end);
  });
  return out;
}

Tensor cpu_minibatch_std_gradient(
    const Tensor& dout_in, const Tensor& x_in, int64_t g, int64_t channels, double eps) {
  const Tensor dout = dout_in.contiguous(), x = x_in.contiguous();
  const MinibatchStd how = sizes_of(x, g, channels, eps);
  Tensor dx = at::empty(x.sizes(), x.options());
  const auto* grad = dout.const_data_ptr<float>();
  const auto* from = x.const_data_ptr<float>();
  auto* to = dx.mutable_data_ptr<float>();
  shared_out(how.groups * how.parts, g * how.length, [&](int64_t begin, int64_t end) {
    cpu_kernels().minibatch_std.gradient(how, grad, from, to, begin, end);
  });
  return dx;
}

Tensor cpu_pixel_norm(const Tensor& x_in, double eps) {
  const Tensor x = x_in.contiguous();
  const NormMaps maps = maps_of(x, eps);
  Tensor out = at::empty(x.sizes(), x.options());
  const auto* from = x.const_data_ptr<float>();
  auto* to = out.mutable_data_ptr<float>();
  const int64_t each = maps.channels * std::min(kPixelBand, maps.pixels);
  shared_out(x.size(0) * bands_of(maps), each, [&](int64_t begin, int64_t end) {
    cpu_kernels().norms.pixel_norm(maps, from, to, begin, end);
  });
  return out;
}

Tensor cpu_pixel_norm_gradient(const Tensor& dout_in, const Tensor& x_in, double eps) {
  const Tensor dout = dout_in.contiguous(), x = x_in.contiguous();
  const NormMaps maps = maps_of(x, eps);
  Tensor dx = at::empty(x.sizes(), x.options());
  const auto* grad = dout.const_data_ptr<float>();
  const auto* from = x.const_data_ptr<float>();
  auto* to = dx.mutable_data_ptr<float>();
  const int64_t each = maps.channels * std::min(kPixelBand, maps.pixels);
  shared_out(x.size(0) * bands_of(maps), each, [&](int64_t begin, int64_t end) {
    cpu_kernels().norms.pixel_norm_gradient(maps, grad, from, to, begin, end);
  });
  return dx;
}

std::tuple<Tensor, Tensor, Tensor> cpu_adain(const Tensor& x_in,
                                             const Tensor& style_in,
                                             double eps) {
  const Tensor x = x_in.contiguous(), style = style_in.contiguous();
  const NormMaps maps = maps_of(x, eps);
  Tensor out = at::empty(x.sizes(), x.options());
  Tensor mean = at::empty({x.size(0), x.size(1)}, x.options()), inverse = at::empty_like(mean);
  const AdainInput input{x.const_data_ptr<float>(), style.const_data_ptr<float>()};
  const AdainOutput output{out.mutable_data_ptr<float>(),
                           mean.mutable_data_ptr<float>(),
                           inverse.mutable_data_ptr<float>()};
  shared_out(mean.numel(), maps.pixels, [&](int64_t begin, int64_t end) {
    cpu_kernels().norms.adain(maps, input, output, begin, end);
  });
  return {out, mean, inverse};
}

std::tuple<Tensor, Tensor> cpu_adain_gradient(const Tensor& dout_in,
                                              const Tensor& x_in,
                                              const Tensor& style_in,
                                              const Tensor& mean,
                                              const Tensor& inverse) {
  const Tensor dout = dout_in.contiguous(), x = x_in.contiguous(), style = style_in.contiguous();
  const NormMaps maps = maps_of(x, /*eps=*/0);
  Tensor dx = at::empty(x.sizes(), x.options()), dstyle = at::empty_like(style);
  const AdainMoments moments{mean.const_data_ptr<float>(), inverse.const_data_ptr<float>()};
  const auto* grad = dout.const_data_ptr<float>();
  const AdainInput input{x.const_data_ptr<float>(), style.const_data_ptr<float>()};
  const AdainGradient result{dx.mutable_data_ptr<float>(), dstyle.mutable_data_ptr<float>()};
  shared_out(mean.numel(), maps.pixels, [&](int64_t begin, int64_t end) {
    cpu_kernels().norms.adain_gradient(maps, input, moments, grad, result, begin, end);
  });
  return {dx, dstyle};
}

}  // namespace gantrain
