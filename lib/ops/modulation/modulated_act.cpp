// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/device_kernels.h"
#include "ops/modulation/map_layout.h"
#include "ops/modulation/modulation.h"
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

namespace {

Tensor for_pixels(const Tensor& t) { return t.unsqueeze(-1).unsqueeze(-1); }

struct ActGradientHow {
  ActNumbers numbers;
  ActWanted wanted;
};

// The second derivative out of operators that are differentiable again, for derivatives of the
// third order and above. d out / d u is a constant almost everywhere.
struct Composed {
  Composed(const ActPoint& point, const ActTensors& tensors, const ActNumbers& numbers)
      : at(point), t(tensors), how(numbers) {
    const auto options = at.grad.options().dtype(at::kFloat);
    slope = at::scalar_tensor(how.gain, options);
    if (at.out.defined()) {
      slope = at::where(at.out > 0, slope, at::scalar_tensor(how.gain * how.alpha, options));
      slope = at::where(at.out.abs() < how.clamp, slope, at::scalar_tensor(0, options));
    }
  }

  Tensor by_grad(const ActDerivatives& along) const {
    Tensor sum = at::zeros_like(at.grad);
    if (along.y.defined()) {
      const Tensor y = along.y * how.scale;
      sum = sum + (t.d.defined() ? y * for_pixels(t.d) : y);
    }
    if (along.d.defined()) sum = sum + at.y * for_pixels(along.d * how.scale);
    if (along.strength.defined())
      sum = sum + t.noise.unsqueeze(1) * along.strength.reshape({-1, 1, 1});
    if (along.bias.defined()) sum = sum + along.bias.reshape({-1, 1, 1});
    return (slope * sum).to(at.grad.scalar_type());
  }
  Tensor by_y(const ActDerivatives& along) const {
    return (at.grad * slope * for_pixels(along.d * how.scale)).to(at.grad.scalar_type());
  }
  Tensor by_d(const ActDerivatives& along) const {
    return (at.grad.to(at::kFloat) * slope * along.y).sum({2, 3}) * how.scale;
  }

  const ActPoint& at;
  const ActTensors& t;
  const ActNumbers& how;
  Tensor slope;
};

// (grad, y, d, ...) -> the derivatives by y and by the terms that are wanted, in that order.
struct ActGradientFunction : torch::autograd::Function<ActGradientFunction> {
  static variable_list forward(AutogradContext* context,
                               const Tensor& grad,
                               const std::optional<Tensor>& y,
                               const std::optional<Tensor>& d,
                               const std::optional<Tensor>& noise,
                               const std::optional<Tensor>& strength,
                               const std::optional<Tensor>& out,
                               const ActGradientHow& how) {
    const ActPoint at{grad, y.value_or(Tensor()), out.value_or(Tensor())};
    const ActTensors t{d.value_or(Tensor()), noise.value_or(Tensor()), strength.value_or(Tensor())};
    save(context, {at.grad, at.y, at.out, t.d, t.noise, t.strength});
    hold(context, "how", how);
    const ActDerivatives all = fused_kernels_of(grad).act_gradient(at, t, how.numbers, how.wanted);
    variable_list wanted = {all.y};
    for (const Tensor& one : {all.d, all.strength, all.bias}) {
      if (one.defined()) wanted.push_back(one);
    }
    return wanted;
  }

  static variable_list backward(AutogradContext* context, variable_list v) {
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const auto& how = held<ActGradientHow>(context, "how");
    const ActPoint at{saved[0], saved[1], saved[2]};
    const ActTensors t{saved[3], saved[4], saved[5]};
    size_t next = 1;
    const auto direction = [&](bool wanted) { return wanted ? v[next++] : Tensor(); };
    ActDerivatives along{v[0]};
    along.d = direction(how.wanted.d);
    along.strength = direction(how.wanted.strength);
    along.bias = direction(how.wanted.bias);
    // Undefined inputs have no edge.
    const FusedKernels::SecondWanted wanted{
        at.y.defined() && along.d.defined() && context->needs_input_grad(1),
        t.d.defined() && along.y.defined() && context->needs_input_grad(at.y.defined() ? 2 : 1)};
    variable_list result(7);
    if (!along.y.defined() && !along.d.defined() && !along.strength.defined() &&
        !along.bias.defined())
      return result;
    if (at::GradMode::is_enabled()) {
      const Composed composed(at, t, how.numbers);
      result[0] = composed.by_grad(along);
      if (wanted.y) result[1] = composed.by_y(along);
      if (wanted.d) result[2] = composed.by_d(along);
    } else {
      std::tie(result[0], result[1], result[2]) =
          fused_kernels_of(at.grad).act_second(at, t, how.numbers, along, wanted);
    }
    return result;
  }
};

struct ActFunction : torch::autograd::Function<ActFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& y,
                        const std::optional<Tensor>& d,
                        const std::optional<Tensor>& strength,
                        const std::optional<Tensor>& bias,
                        const std::optional<Tensor>& noise,
                        const ActNumbers& how) {
    const ActTensors t{d.value_or(Tensor()),
                       noise.value_or(Tensor()),
                       strength.value_or(Tensor()),
                       bias.value_or(Tensor())};
    const Tensor out = fused_kernels_of(y).act(y, t, how);
    save(context,
         {t.d.defined() ? y : Tensor(),
          t.d,
          t.noise,
          t.strength,
          how.constant_slope() ? Tensor() : out});
    hold(context, "how", how);
    hold(context, "biased", t.bias.defined());
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    variable_list result(6);
    if (!grad[0].defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const Tensor &d = saved[1], &noise = saved[2], &strength = saved[3];
    const Tensor out = saved[4].defined() ? saved[4].detach() : saved[4];
    // Undefined inputs have no edge.
    size_t next = 1;
    const auto needed = [&](bool is_there) {
      return is_there && context->needs_input_grad(next++);
    };
    ActGradientHow how{held<ActNumbers>(context, "how"), {}};
    how.wanted.d = needed(d.defined());
    how.wanted.strength = needed(strength.defined());
    how.wanted.bias = needed(held<bool>(context, "biased"));
    const variable_list found =
        ActGradientFunction::apply(grad[0],
                                   present(how.wanted.d ? saved[0] : Tensor()),
                                   present(d),
                                   present(noise),
                                   present(strength),
                                   present(out),
                                   how);
    result[0] = found[0];
    size_t i = 1;
    if (how.wanted.d) result[1] = found[i++];
    if (how.wanted.strength) result[2] = found[i++];
    if (how.wanted.bias) result[3] = found[i++];
    return result;
  }
};

// The slope below 0, none for activations that are not two straight lines.
std::optional<double> lower_slope(const BiasAct& how) {
  constexpr double kLreluSlope = 0.2;
  switch (how.act) {
    case Activation::kLinear:
      return 1;
    case Activation::kRelu:
      return 0;
    case Activation::kLrelu:
      return how.alpha.value_or(kLreluSlope);
    default:
      return std::nullopt;
  }
}

// noise as [n, H, W], n = 1 or N; undefined where it has another shape.
Tensor noise_maps(const Tensor& noise, const Tensor& x) {
  const int64_t h = x.size(2), w = x.size(3);
  if (noise.dim() == 2 && noise.size(0) == h && noise.size(1) == w) return noise.unsqueeze(0);
  const bool maps = noise.dim() == 4 && (noise.size(0) == 1 || noise.size(0) == x.size(0)) &&
                    noise.size(1) == 1 && noise.size(2) == h && noise.size(3) == w;
  return maps ? noise.squeeze(1) : Tensor();
}

Tensor composed(const Tensor& x, const ModulatedAct& terms, const BiasAct& how) {
  const at::ScalarType type = x.scalar_type();
  Tensor u = terms.scale == 1 ? x : x * terms.scale;
  if (terms.d.defined()) u = u * for_pixels(terms.d.to(type));
  if (terms.noise.defined()) {
    const Tensor& strength = terms.strength;
    if (!strength.defined()) {
      u = u + terms.noise.to(type);
    } else if (strength.dim() == 0) {
      u = u + (terms.noise.to(strength.options()) * strength).to(type);
    } else {
      u = at::addcmul(u, terms.noise.to(type), strength.to(type).reshape({-1, 1, 1}));
    }
  }
  const bool nothing = how.act == Activation::kLinear && how.gain.value_or(1) == 1 &&
                       !how.clamp.has_value() && !terms.bias.defined();
  if (nothing) return u;
  return bias_act(u, terms.bias.defined() ? terms.bias.to(type) : terms.bias, how);
}

bool no_derivative(const Tensor& t) { return !(at::GradMode::is_enabled() && t.requires_grad()); }

}  // namespace

Tensor modulated_act(const Tensor& x, const ModulatedAct& terms, const BiasAct& how) {
  TORCH_CHECK(x.dim() == 4, "modulated_act takes [N, C, H, W], not ", x.sizes());
  const WithoutAutocast exact;
  const std::optional<double> alpha = lower_slope(how);
  const double gain = how.gain.value_or(default_gain(how.act));
  const Tensor noise = terms.noise.defined() ? noise_maps(terms.noise, x) : terms.noise;
  const bool one_pass = has_fused_kernel(&FusedKernels::act, x) && alpha.has_value() &&
                        *alpha >= 0 && gain > 0 && noise.defined() == terms.noise.defined() &&
                        (!noise.defined() || no_derivative(noise));
  if (!one_pass) return composed(x, terms, how);
  const auto in_type = [&](const Tensor& t) {
    return t.defined() ? std::optional<Tensor>(t.to(at::kFloat)) : std::nullopt;
  };
  const ActNumbers numbers{
      terms.scale, *alpha, gain, how.clamp.value_or(std::numeric_limits<double>::infinity())};
  return ActFunction::apply(x,
                            in_type(terms.d),
                            noise.defined() ? in_type(terms.strength) : std::nullopt,
                            in_type(terms.bias),
                            in_type(noise),
                            numbers);
}

bool scale_is_free(const Tensor& x) {
  // Sums of products that are not scaled yet may leave float16's range.
  const at::ScalarType type = convolution_type(x);
  return type != at::kHalf && has_fused_kernel(&FusedKernels::act, x, type);
}

Tensor channels_scaled(const Tensor& x, const Tensor& s) {
  BiasAct linear;
  linear.gain = 1;
  return modulated_act(x, {.d = s}, linear);
}

}  // namespace gantrain
