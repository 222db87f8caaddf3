// SPDX-License-Identifier: Apache-2.0
// The kernels of modulated_act() for tensors on a CPU: modulation_cpu.h on their memory.
#include <algorithm>

#include "core/torch.h"
#include "ops/device_kernels.h"
#include "ops/modulation/map_layout.h"
#include "ops/operator.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

namespace {

Tensor contiguous(const Tensor& t) { return t.defined() ? t.contiguous() : t; }

ActTensors contiguous(const ActTensors& t) {
  return {contiguous(t.d), contiguous(t.noise), contiguous(t.strength), contiguous(t.bias)};
}

// Maps as the CPU kernels take them.
class Layout : public MapLayout {
 public:
  explicit Layout(const Tensor& maps)
      : MapLayout(maps), n_(maps.size(0)), c_(maps.size(1)), pixels_(maps.size(2) * maps.size(3)) {}

  const ActKernels& kernels() const {
    return channels_last() ? cpu_kernels().modulation.channels_last
                           : cpu_kernels().modulation.planes;
  }

  // What the kernels count in: planes, or parts of samples.
  int64_t units() const { return channels_last() ? n_ * parts() : n_ * c_; }
  template <class Kernel>
  void run(const Kernel& kernel) const {
    const int64_t each = channels_last() ? c_ * std::min(kPixelPart, pixels_) : pixels_;
    shared_out(units(), each, kernel);
  }
  // The units' sums, in float64.
  Tensor sums(bool wanted) const {
    if (!wanted) return {};
    return at::empty({channels_last() ? units() * c_ : units()}, at::kDouble);
  }
  // The sums of each sample's channel, [N, C], out of the units'.
  Tensor of_planes(const Tensor& sums) const {
    if (!channels_last()) return sums.reshape({n_, c_});
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
  planes.d = floats(t.d);
  planes.bias = floats(t.bias);
  planes.noise = floats(t.noise);
  planes.noise_stride = t.noise.defined() && t.noise.size(0) > 1 ? planes.pixels : 0;
  planes.strength = t.strength.defined() ? floats(t.strength) : &kOne;
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
  auto* to = out.mutable_data_ptr<float>();
  layout.run(
      [&](int64_t begin, int64_t end) { layout.kernels().act(planes, floats(y), to, begin, end); });
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
  const ActSaved saved{floats(at.grad), floats(at.out), floats(at.y)};
  const ActGradient result{
      dy.mutable_data_ptr<float>(), y.pointer(), noise.pointer(), plain.pointer()};
  layout.run([&](int64_t begin, int64_t end) {
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
  const ActSaved saved{floats(at.grad), floats(at.out), floats(at.y)};
  const ActDirections directions{
      floats(along.y), floats(along.d), floats(along.strength), floats(along.bias)};
  const ActSecond result{grad.mutable_data_ptr<float>(),
                         y.defined() ? y.mutable_data_ptr<float>() : nullptr,
                         d.pointer()};
  layout.run([&](int64_t begin, int64_t end) {
    layout.kernels().second(planes, saved, directions, result, begin, end);
  });
  return {grad, y, d.each(how.scale)};
}

}  // namespace gantrain
