// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/parallel.h"
#include "core/torch.h"
#include "cpu_kernels/kernels.h"
#include "ops/cpu_fused.h"

namespace gantrain {

using at::Tensor;

namespace {

constexpr int64_t kGrain = 16384;  // numbers that a thread is worth

int64_t grain_of(int64_t numbers_each) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, numbers_each));
}

const float* data(const Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; }

Tensor contiguous(const Tensor& t) { return t.defined() ? t.contiguous() : t; }

ActTensors contiguous(const ActTensors& t) {
  return {contiguous(t.d), contiguous(t.noise), contiguous(t.strength), contiguous(t.bias)};
}

// The order in memory of the maps of one call: the first one's.
class Layout {
 public:
  explicit Layout(const Tensor& maps)
      : last_(maps.suggest_memory_format() == at::MemoryFormat::ChannelsLast),
        format_(last_ ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous),
        n_(maps.size(0)),
        c_(maps.size(1)),
        pixels_(maps.size(2) * maps.size(3)) {}

  Tensor operator()(const Tensor& maps) const {
    return maps.defined() ? maps.contiguous(format_) : maps;
  }
  ActPoint operator()(const ActPoint& at) const {
    return {(*this)(at.grad), (*this)(at.y), (*this)(at.out)};
  }
  Tensor empty(const Tensor& like) const {
    return at::empty(like.sizes(), like.options().memory_format(format_));
  }
  const ActKernels& kernels() const {
    return last_ ? cpu_kernels().modulation.channels_last : cpu_kernels().modulation.planes;
  }

  // What the kernels count in: planes, or parts of samples.
  int64_t units() const { return last_ ? n_ * parts() : n_ * c_; }
  template <class Kernel>
  void share_out(const Kernel& kernel) const {
    const int64_t each = last_ ? c_ * std::min(kPixelPart, pixels_) : pixels_;
    parallel_for(0, units(), grain_of(each), kernel);
  }
  // The units' sums, in float64.
  Tensor sums(bool wanted) const {
    if (!wanted) return {};
    return at::empty({last_ ? units() * c_ : units()}, at::kDouble);
  }
  // The sums of each sample's channel, [N, C], out of the units'.
  Tensor of_planes(const Tensor& sums) const {
    if (!last_) return sums.reshape({n_, c_});
    Tensor planes = at::zeros({n_, c_}, at::kDouble);
    auto* to = planes.mutable_data_ptr<double>();
    const auto* from = sums.const_data_ptr<double>();
    for (int64_t i = 0; i < units(); ++i) {
      for (int64_t c = 0; c < c_; ++c) to[i / parts() * c_ + c] += from[i * c_ + c];
    }
    return planes;
  }

 private:
  int64_t parts() const { return (pixels_ + kPixelPart - 1) / kPixelPart; }

  bool last_;
  at::MemoryFormat format_;
  int64_t n_, c_, pixels_;
};

// The arguments of the kernels for maps like `maps` [N, C, H, W].
ActPlanes planes_of(const Tensor& maps, const ActTensors& t, const ActNumbers& how) {
  static constexpr float kOne = 1;
  ActPlanes planes{};
  planes.channels = maps.size(1);
  planes.pixels = maps.size(2) * maps.size(3);
  planes.scale = static_cast<float>(how.scale);
  planes.alpha = static_cast<float>(how.alpha);
  planes.gain = static_cast<float>(how.gain);
  planes.clamp = static_cast<float>(how.clamp);
  planes.d = data(t.d);
  planes.bias = data(t.bias);
  planes.noise = data(t.noise);
  planes.noise_stride = t.noise.defined() && t.noise.size(0) > 1 ? planes.pixels : 0;
  planes.strength = t.strength.defined() ? data(t.strength) : &kOne;
  planes.strength_stride = t.strength.defined() && t.strength.dim() > 0 ? 1 : 0;
  return planes;
}

// Sums over pixels: each unit's, and what they add up to, in a fixed order.
struct PixelSums {
  PixelSums(const Layout& layout_of_maps, bool wanted)
      : layout(layout_of_maps), units(layout_of_maps.sums(wanted)) {}

  double* pointer() const { return units.defined() ? units.mutable_data_ptr<double>() : nullptr; }

  // [N, C].
  Tensor each(double factor) const {
    if (!units.defined()) return {};
    const Tensor planes = layout.of_planes(units);
    return (factor == 1 ? planes : planes * factor).to(at::kFloat);
  }
  // Over the samples: [C].
  Tensor by_channel() const {
    if (!units.defined()) return {};
    const Tensor planes = layout.of_planes(units);
    Tensor total = at::zeros({planes.size(1)}, at::kDouble);
    auto* to = total.mutable_data_ptr<double>();
    const auto* from = planes.const_data_ptr<double>();
    for (int64_t i = 0; i < planes.numel(); ++i) to[i % planes.size(1)] += from[i];
    return total.to(at::kFloat);
  }
  Tensor all() const {
    if (!units.defined()) return {};
    const auto* from = units.const_data_ptr<double>();
    double total = 0;
    for (int64_t i = 0; i < units.numel(); ++i) total += from[i];
    return at::scalar_tensor(total, at::kFloat);
  }

  const Layout& layout;
  Tensor units;
};

}  // namespace

Tensor cpu_act(const Tensor& y_in, const ActTensors& t_in, const ActNumbers& how) {
  const Layout layout(y_in);
  const Tensor y = layout(y_in);
  const ActTensors t = contiguous(t_in);
  Tensor out = layout.empty(y);
  const ActPlanes planes = planes_of(y, t, how);
  const float* from = data(y);
  auto* to = out.mutable_data_ptr<float>();
  layout.share_out(
      [&](int64_t begin, int64_t end) { layout.kernels().act(planes, from, to, begin, end); });
  return out;
}

ActDerivatives cpu_act_gradient(const ActPoint& at_in,
                                const ActTensors& t_in,
                                const ActNumbers& how,
                                const ActWanted& wanted) {
  const Layout layout(at_in.out.defined() ? at_in.out : at_in.grad);
  const ActPoint at = layout(at_in);
  const ActTensors t = contiguous(t_in);
  Tensor dy = layout.empty(at.grad);
  const PixelSums y(layout, wanted.d), noise(layout, wanted.strength), plain(layout, wanted.bias);
  const ActPlanes planes = planes_of(dy, t, how);
  const ActSaved saved{data(at.grad), data(at.out), data(at.y)};
  const ActGradient result{
      dy.mutable_data_ptr<float>(), y.pointer(), noise.pointer(), plain.pointer()};
  layout.share_out([&](int64_t begin, int64_t end) {
    layout.kernels().gradient(planes, saved, result, begin, end);
  });
  return {dy,
          y.each(how.scale),
          planes.strength_stride == 0 ? noise.all() : noise.by_channel(),
          plain.by_channel()};
}

std::tuple<Tensor, Tensor, Tensor> cpu_act_second(const ActPoint& at_in,
                                                  const ActTensors& t_in,
                                                  const ActNumbers& how,
                                                  const ActDerivatives& along_in,
                                                  const FusedKernels::SecondWanted& wanted) {
  const Layout layout(at_in.out.defined() ? at_in.out : at_in.grad);
  const ActPoint at = layout(at_in);
  const ActTensors t = contiguous(t_in);
  const ActDerivatives along{layout(along_in.y),
                             contiguous(along_in.d),
                             contiguous(along_in.strength),
                             contiguous(along_in.bias)};
  Tensor grad = layout.empty(at.grad);
  // Both are linear in their directions.
  Tensor y = wanted.y && along.d.defined() ? layout.empty(grad) : Tensor();
  const PixelSums d(layout, wanted.d && along.y.defined());
  const ActPlanes planes = planes_of(grad, t, how);
  const ActSaved saved{data(at.grad), data(at.out), data(at.y)};
  const ActDirections directions{
      data(along.y), data(along.d), data(along.strength), data(along.bias)};
  const ActSecond result{grad.mutable_data_ptr<float>(),
                         y.defined() ? y.mutable_data_ptr<float>() : nullptr,
                         d.pointer()};
  layout.share_out([&](int64_t begin, int64_t end) {
    layout.kernels().second(planes, saved, directions, result, begin, end);
  });
  return {grad, y, d.each(how.scale)};
}

Tensor cpu_plane_products(const Tensor& a_in, const Tensor& b_in) {
  const Tensor a = a_in.contiguous(), b = b_in.contiguous();
  Tensor sums = at::empty({a.size(0), a.size(1)}, a.options());
  const float *pa = data(a), *pb = data(b);
  auto* to = sums.mutable_data_ptr<float>();
  const int64_t length = a.size(2) * a.size(3);
  parallel_for(0, sums.numel(), grain_of(length), [&](int64_t begin, int64_t end) {
    cpu_kernels().modulation.row_products(pa, pb, to, length, begin, end);
  });
  return sums;
}

Tensor cpu_scaled_planes(const Tensor& w_in, const Tensor& by_in, double factor) {
  const Tensor w = w_in.contiguous(), by = by_in.contiguous();
  Tensor out = at::empty(w.sizes(), w.options());
  const float *from = data(w), *factors = data(by);
  auto* to = out.mutable_data_ptr<float>();
  const int64_t length = w.size(2) * w.size(3);
  parallel_for(0, by.numel(), grain_of(length), [&](int64_t begin, int64_t end) {
    cpu_kernels().modulation.scaled_rows(
        from, factors, static_cast<float>(factor), to, length, begin, end);
  });
  return out;
}

}  // namespace gantrain
