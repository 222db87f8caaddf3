// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "ops/gpu/planes_walk.h"
#include "ops/gpu/table_cuda.h"
#include "ops/modulation/map_layout.h"
#include "ops/modulation/modulation_gpu.h"

namespace gantrain {

using at::Tensor;

using cuda_kernels::ModulatedActTask;
using cuda_kernels::Order;
using cuda_kernels::Parts;

namespace {

float* mutable_floats(const Tensor& t) {
  return t.defined() ? t.mutable_data_ptr<float>() : nullptr;
}
const float* floats(const Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; }

Tensor contiguous(const Tensor& t) { return t.defined() ? t.to(at::kFloat).contiguous() : t; }
ActTensors contiguous(const ActTensors& t) {
  return {contiguous(t.d), contiguous(t.noise), contiguous(t.strength), contiguous(t.bias)};
}

// The arguments of the kernels for maps like `maps` [N, C, H, W].
ModulatedActTask task_of(const MapLayout& layout,
                         const Tensor& maps,
                         const ActTensors& t,
                         const ActNumbers& how) {
  const int64_t pixels = maps.size(2) * maps.size(3);
  return {.type = kernel_type(maps),
          .maps = {layout.channels_last() ? Order::kRows : Order::kPlanes,
                   maps.size(0),
                   maps.size(1),
                   pixels},
          .scale = static_cast<float>(how.scale),
          .alpha = static_cast<float>(how.alpha),
          .gain = static_cast<float>(how.gain),
          .clamp = static_cast<float>(how.clamp),
          .d = floats(t.d),
          .noise = floats(t.noise),
          .noise_stride = t.noise.defined() && t.noise.size(0) > 1 ? pixels : 0,
          .strength = floats(t.strength),
          .strength_stride = t.strength.defined() && t.strength.dim() > 0 ? 1 : 0,
          .bias = floats(t.bias)};
}

// Sums that a kernel leaves for each part of the maps. What all of them add up to takes one launch.
class PixelSums {
 public:
  PixelSums(const Tensor& like, const Parts& shape)
      : shape_(shape), options_(like.options().dtype(at::kFloat)), stream_(current_stream(like)) {}

  // Room for the parts of one more, and in `sum` for what they add up to times `factor`, [N, C] or
  // [C]. Null unless it is wanted.
  float* room(bool wanted, Tensor& sum, at::IntArrayRef sizes, double factor = 1) {
    if (!wanted) return nullptr;
    parts_.push_back(at::empty({shape_.count()}, options_));
    sum = at::empty(sizes, options_);
    sums_.add(task(shape_, parts_.back(), sum, sizes.size() < 2, factor));
    return mutable_floats(parts_.back());
  }
  void add_up() const {
    cuda_kernels::sum_all_parts(sums_, stream_);
    check_launch();
  }
  // Of a sum [C], all.
  Tensor over_channels(const Tensor& sum) const {
    if (!sum.defined()) return {};
    Tensor all = at::empty({}, options_);
    cuda_kernels::sum_parts(task({Order::kPlanes, 1, 1, shape_.channels}, sum, all, true, 1),
                            stream_);
    check_launch();
    return all;
  }

 private:
  static cuda_kernels::PartsSum task(const Parts& shape,
                                     const Tensor& parts,
                                     const Tensor& sum,
                                     bool over_samples,
                                     double factor) {
    return {.type = cuda_kernels::Type::kFloat32,
            .shape = shape,
            .over_samples = over_samples,
            .factor = factor,
            .parts = data(parts),
            .out = sum.mutable_data_ptr()};
  }

  Parts shape_;
  at::TensorOptions options_;
  cuda_kernels::Stream stream_;
  std::vector<Tensor> parts_;
  cuda_kernels::PartsSums sums_;
};

Tensor zeros(const Tensor& like, at::IntArrayRef sizes, bool wanted) {
  return wanted ? at::zeros(sizes, like.options().dtype(at::kFloat)) : Tensor();
}

}  // namespace

Tensor cuda_act(const Tensor& y_in, const ActTensors& t_in, const ActNumbers& how) {
  const MapLayout layout(y_in);
  Tensor out = layout.empty(y_in);
  if (out.numel() == 0) return out;
  const Tensor y = layout(y_in);
  const ActTensors t = contiguous(t_in);
  cuda_kernels::modulated_act(
      task_of(layout, y, t, how), data(y), mutable_data(out), current_stream(y));
  check_launch();
  return out;
}

Tensor cuda_act_added(const Tensor& y_in,
                      const ActTensors& t_in,
                      const ActNumbers& how,
                      const Tensor& added) {
  const MapLayout layout(y_in);
  Tensor out = layout.empty(y_in);
  if (out.numel() == 0) return out;
  const Tensor y = layout(y_in), more = layout(added);
  const ActTensors t = contiguous(t_in);
  cuda_kernels::added_act(
      task_of(layout, y, t, how), {data(y), data(more), mutable_data(out)}, current_stream(y));
  check_launch();
  return out;
}

ActDerivatives cuda_act_gradient(const ActPoint& at_in,
                                 const ActTensors& t_in,
                                 const ActNumbers& how,
                                 const ActWanted& wanted) {
  const Tensor& grad = at_in.grad;
  const MapLayout layout(at_in.out.defined() ? at_in.out : grad);
  Tensor dy = layout.empty(grad);
  const bool by_channel = t_in.strength.defined() && t_in.strength.dim() > 0;
  if (dy.numel() == 0) {
    const int64_t channels = grad.size(1);
    const Tensor of_channels = zeros(grad, {channels}, wanted.bias);
    return {
        dy,
        zeros(grad, {grad.size(0), channels}, wanted.d),
        by_channel ? zeros(grad, {channels}, wanted.strength) : zeros(grad, {}, wanted.strength),
        of_channels};
  }
  const ActPoint at = layout(at_in);
  const ActTensors t = contiguous(t_in);
  const ModulatedActTask task = task_of(layout, dy, t, how);
  cuda_kernels::ModulatedGradientArrays arrays{.grad = data(at.grad),
                                               .out = data(at.out),
                                               .y = wanted.d ? data(at.y) : nullptr,
                                               .dy = mutable_data(dy)};
  const int64_t samples = dy.size(0), channels = dy.size(1);
  PixelSums sums(dy, cuda_kernels::gradient_parts(task, arrays));
  ActDerivatives found{dy};
  arrays.sum_y = sums.room(wanted.d, found.d, {samples, channels}, how.scale);
  arrays.sum_noise = sums.room(wanted.strength, found.strength, {channels});
  arrays.sum = sums.room(wanted.bias, found.bias, {channels});
  cuda_kernels::modulated_act_gradient(task, arrays, current_stream(dy));
  check_launch();
  sums.add_up();
  if (!by_channel) found.strength = sums.over_channels(found.strength);
  return found;
}

std::tuple<Tensor, Tensor, Tensor> cuda_act_second(const ActPoint& at_in,
                                                   const ActTensors& t_in,
                                                   const ActNumbers& how,
                                                   const ActDerivatives& along_in,
                                                   const FusedKernels::SecondWanted& wanted) {
  const MapLayout layout(at_in.out.defined() ? at_in.out : at_in.grad);
  Tensor by_grad = layout.empty(at_in.grad);
  // Both are linear in their directions.
  Tensor by_y = wanted.y && along_in.d.defined() ? layout.empty(by_grad) : Tensor();
  const bool by_d = wanted.d && along_in.y.defined();
  if (by_grad.numel() == 0)
    return {by_grad, by_y, zeros(by_grad, {by_grad.size(0), by_grad.size(1)}, by_d)};
  const ActPoint at = layout(at_in);
  const ActTensors t = contiguous(t_in);
  const ActDerivatives along{layout(along_in.y),
                             contiguous(along_in.d),
                             contiguous(along_in.strength),
                             contiguous(along_in.bias)};
  const ModulatedActTask task = task_of(layout, by_grad, t, how);
  cuda_kernels::ModulatedSecondArrays arrays{
      .grad = data(at.grad),
      .out = data(at.out),
      .y = data(at.y),
      .along = {data(along.y), floats(along.d), floats(along.strength), floats(along.bias)},
      .by_grad = mutable_data(by_grad),
      .by_y = mutable_data(by_y)};
  PixelSums sums(by_grad, cuda_kernels::second_parts(task, arrays));
  Tensor d;
  arrays.sum_d = sums.room(by_d, d, {by_grad.size(0), by_grad.size(1)}, how.scale);
  cuda_kernels::modulated_act_second(task, arrays, current_stream(by_grad));
  check_launch();
  sums.add_up();
  return {by_grad, by_y, d};
}

std::tuple<Tensor, Tensor> cuda_act_scaled(const Tensor& y_in,
                                           const ActTensors& t_in,
                                           const ActNumbers& how,
                                           const Tensor& then_in,
                                           bool both) {
  const MapLayout layout(y_in);
  Tensor out = both ? layout.empty(y_in) : Tensor(), scaled = layout.empty(y_in);
  if (scaled.numel() == 0) return {out, scaled};
  const Tensor y = layout(y_in), then = contiguous(then_in);
  const ActTensors t = contiguous(t_in);
  cuda_kernels::scaled_act(task_of(layout, y, t, how),
                           {data(y), floats(then), mutable_data(out), mutable_data(scaled)},
                           current_stream(y));
  check_launch();
  return {out, scaled};
}

ScaledActDerivatives cuda_act_scaled_gradient(const ScaledActPoint& at,
                                              const ActTensors& t_in,
                                              const ActNumbers& how,
                                              const Tensor& then_in,
                                              const ActWanted& wanted,
                                              bool wants_then) {
  const MapLayout layout(at.y);
  const Tensor y = layout(at.y), grad = layout(at.grad), grad_scaled = layout(at.grad_scaled),
               then = contiguous(then_in);
  Tensor dy = layout.empty(y);
  const int64_t samples = y.size(0), channels = y.size(1);
  const bool by_channel = t_in.strength.defined() && t_in.strength.dim() > 0;
  if (dy.numel() == 0) {
    const auto of_channels = [&](bool is) { return zeros(y, {channels}, is); };
    return {{dy,
             zeros(y, {samples, channels}, wanted.d),
             by_channel ? of_channels(wanted.strength) : zeros(y, {}, wanted.strength),
             of_channels(wanted.bias)},
            zeros(y, {samples, channels}, wants_then)};
  }
  const ActTensors t = contiguous(t_in);
  const ModulatedActTask task = task_of(layout, y, t, how);
  cuda_kernels::ScaledGradientArrays arrays{.grad = data(grad),
                                            .grad_scaled = data(grad_scaled),
                                            .y = data(y),
                                            .then = floats(then),
                                            .dy = mutable_data(dy)};
  PixelSums sums(dy, cuda_kernels::scaled_parts(task, arrays));
  ScaledActDerivatives found{{dy}, {}};
  ActDerivatives& terms = found.terms;
  arrays.sum_y = sums.room(wanted.d, terms.d, {samples, channels}, how.scale);
  arrays.sum_noise = sums.room(wanted.strength, terms.strength, {channels});
  arrays.sum = sums.room(wanted.bias, terms.bias, {channels});
  arrays.sum_then = sums.room(wants_then, found.then, {samples, channels});
  cuda_kernels::scaled_act_gradient(task, arrays, current_stream(dy));
  check_launch();
  sums.add_up();
  if (!by_channel) terms.strength = sums.over_channels(terms.strength);
  return found;
}

namespace {

cuda_kernels::WeightRows rows_of(const Tensor& w) {
  return {kernel_type(w), w.size(0) * w.size(1), w.size(2) * w.size(3)};
}

}  // namespace

Tensor cuda_plane_products(const Tensor& a_in, const Tensor& b_in) {
  const Tensor a = a_in.contiguous(), b = b_in.contiguous();
  if (a.numel() == 0) return at::zeros({a.size(0), a.size(1)}, a.options());
  Tensor sums = at::empty({a.size(0), a.size(1)}, a.options());
  cuda_kernels::row_products(rows_of(a),
                             {a.const_data_ptr(), b.const_data_ptr(), sums.mutable_data_ptr()},
                             current_stream(a));
  check_launch();
  return sums;
}

Tensor cuda_scaled_planes(const Tensor& w_in, const Tensor& by_in, double factor) {
  const Tensor w = w_in.contiguous(), by = by_in.contiguous();
  Tensor out = at::empty(w.sizes(), w.options());
  if (w.numel() == 0) return out;
  cuda_kernels::scaled_rows(rows_of(w),
                            factor,
                            {w.const_data_ptr(), by.const_data_ptr(), out.mutable_data_ptr()},
                            current_stream(w));
  check_launch();
  return out;
}

}  // namespace gantrain
