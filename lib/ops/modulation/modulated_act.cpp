// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/device_kernels.h"
#include "ops/modulation/modulation.h"
#include "ops/operator.h"

namespace gantrain {

namespace {

constexpr double kNoClamp = std::numeric_limits<double>::infinity();

Tensor for_pixels(const Tensor& t) { return t.unsqueeze(-1).unsqueeze(-1); }

// Terms as arguments of a torch::autograd::Function.
ActTensors terms_of(const std::optional<Tensor>& d,
                    const std::optional<Tensor>& noise,
                    const std::optional<Tensor>& strength,
                    const std::optional<Tensor>& bias = std::nullopt) {
  return {d.value_or(Tensor()),
          noise.value_or(Tensor()),
          strength.value_or(Tensor()),
          bias.value_or(Tensor())};
}

// The derivatives that are needed by the terms that are there. `edge`: the first one of theirs;
// undefined inputs have none.
ActWanted needed(AutogradContext* context, size_t edge, const ActWanted& there) {
  const auto next = [&](bool is_there) { return is_there && context->needs_input_grad(edge++); };
  ActWanted wanted{};
  wanted.d = next(there.d);
  wanted.strength = next(there.strength);
  wanted.bias = next(there.bias);
  return wanted;
}
ActWanted needed(AutogradContext* context, size_t edge, const ActTensors& t) {
  return needed(context, edge, {t.d.defined(), t.strength.defined(), t.bias.defined()});
}

// What backward() returns for y, for the input beside it where there is one, for d, strength and
// bias, and for noise and numbers, which have no derivatives.
variable_list returned(const ActDerivatives& found, const std::optional<Tensor>& beside = {}) {
  variable_list all = {found.y};
  if (beside) all.push_back(*beside);
  all.insert(all.end(), {found.d, found.strength, found.bias, Tensor(), Tensor()});
  return all;
}

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
    const ActTensors t = terms_of(d, noise, strength);
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

// The derivatives that are wanted, themselves differentiable.
ActDerivatives derivatives(const ActPoint& at, const ActTensors& t, const ActGradientHow& how) {
  const variable_list found = ActGradientFunction::apply(at.grad,
                                                         present(how.wanted.d ? at.y : Tensor()),
                                                         present(t.d),
                                                         present(t.noise),
                                                         present(t.strength),
                                                         present(at.out),
                                                         how);
  size_t next = 1;
  const auto one = [&](bool wanted) { return wanted ? found[next++] : Tensor(); };
  ActDerivatives all{found[0]};
  all.d = one(how.wanted.d);
  all.strength = one(how.wanted.strength);
  all.bias = one(how.wanted.bias);
  return all;
}

struct ActFunction : torch::autograd::Function<ActFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& y,
                        const std::optional<Tensor>& d,
                        const std::optional<Tensor>& strength,
                        const std::optional<Tensor>& bias,
                        const std::optional<Tensor>& noise,
                        const ActNumbers& how) {
    const ActTensors t = terms_of(d, noise, strength, bias);
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
    if (!grad[0].defined()) return returned({});
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const Tensor &d = saved[1], &noise = saved[2], &strength = saved[3];
    const Tensor out = saved[4].defined() ? saved[4].detach() : saved[4];
    const ActWanted there{d.defined(), strength.defined(), held<bool>(context, "biased")};
    const ActGradientHow how{held<ActNumbers>(context, "how"), needed(context, 1, there)};
    return returned(derivatives({grad[0], saved[0], out}, {d, noise, strength, {}}, how));
  }
};

// (y, added, d, strength, bias, noise) -> out + added. y is kept, from which the slopes are
// computed anew: what comes out cannot tell them.
struct AddedActFunction : torch::autograd::Function<AddedActFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& y,
                        const Tensor& added,
                        const std::optional<Tensor>& d,
                        const std::optional<Tensor>& strength,
                        const std::optional<Tensor>& bias,
                        const std::optional<Tensor>& noise,
                        const ActNumbers& how) {
    const ActTensors t = terms_of(d, noise, strength, bias);
    save(context, {y, t.d, t.strength, t.bias, t.noise});
    hold(context, "how", how);
    return fused_kernels_of(y).act_added(y, t, how, added);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    if (!grad[0].defined()) return returned({}, Tensor());
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const Tensor& y = saved[0];
    const ActTensors t{saved[1], saved[4], saved[2], saved[3]};
    const ActGradientHow how{held<ActNumbers>(context, "how"), needed(context, 2, t)};
    ActDerivatives found;
    if (at::GradMode::is_enabled()) {
      const Tensor out = fused_kernels_of(y).act(y.detach(), t, how.numbers);
      found = derivatives({grad[0], y, how.numbers.constant_slope() ? Tensor() : out}, t, how);
    } else {
      found = fused_kernels_of(y)
                  .act_scaled_gradient(
                      {grad[0], {}, y}, t, how.numbers, {}, how.wanted, /*wants_then=*/false)
                  .terms;
    }
    return returned(found, grad[0]);
  }
};

struct ScaledActHow {
  ActNumbers numbers;
  bool both;
};

// (y, then, d, ...) -> out, if `both`, and out * then. The derivatives are one pass. Where they are
// to be differentiated again, they are those of ActFunction and of the product after it.
struct ScaledActFunction : torch::autograd::Function<ScaledActFunction> {
  static variable_list forward(AutogradContext* context,
                               const Tensor& y,
                               const Tensor& then,
                               const std::optional<Tensor>& d,
                               const std::optional<Tensor>& strength,
                               const std::optional<Tensor>& bias,
                               const std::optional<Tensor>& noise,
                               const ScaledActHow& how) {
    const ActTensors t = terms_of(d, noise, strength, bias);
    const auto [out, scaled] = fused_kernels_of(y).act_scaled(y, t, how.numbers, then, how.both);
    save(context, {y, then, t.d, t.strength, t.bias, t.noise});
    hold(context, "how", how);
    return how.both ? variable_list{out, scaled} : variable_list{scaled};
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto& how = held<ScaledActHow>(context, "how");
    const Tensor by_out = how.both ? grad[0] : Tensor(), &by_scaled = grad.back();
    if (!by_out.defined() && !by_scaled.defined()) return returned({}, Tensor());
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const Tensor &y = saved[0], &then = saved[1];
    const ActTensors t{saved[2], saved[5], saved[3], saved[4]};
    const bool wants_then = by_scaled.defined() && context->needs_input_grad(1);
    const ActWanted wanted = needed(context, 2, t);
    const ScaledActDerivatives found =
        at::GradMode::is_enabled()
            ? in_two_steps({by_out, by_scaled, y}, t, then, {how.numbers, wanted}, wants_then)
            : fused_kernels_of(y).act_scaled_gradient(
                  {by_out, by_scaled, y}, t, how.numbers, then, wanted, wants_then);
    return returned(found.terms, found.then);
  }

 private:
  static ScaledActDerivatives in_two_steps(const ScaledActPoint& at,
                                           const ActTensors& t,
                                           const Tensor& then,
                                           const ActGradientHow& how,
                                           bool wants_then) {
    const Tensor out = ActFunction::apply(
        at.y, present(t.d), present(t.strength), present(t.bias), present(t.noise), how.numbers);
    Tensor grad = at.grad, by_then;
    if (at.grad_scaled.defined()) {
      const ActGradientHow product{{1, 1, 1, kNoClamp}, {.d = wants_then}};
      const ActDerivatives found = derivatives({at.grad_scaled, out, {}}, {then}, product);
      by_then = found.d;
      grad = grad.defined() ? grad + found.y : found.y;
    }
    const Tensor slopes = how.numbers.constant_slope() ? Tensor() : out.detach();
    return {derivatives({grad, at.y, slopes}, t, how), by_then};
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

// The arguments of the kernels, where they take these.
struct OnePass {
  std::optional<Tensor> d, strength, bias, noise;
  ActNumbers numbers;
};
std::optional<OnePass> one_pass(const Tensor& x, const ModulatedAct& terms, const BiasAct& how) {
  TORCH_CHECK(x.dim() == 4, "modulated_act takes [N, C, H, W], not ", x.sizes());
  const std::optional<double> alpha = lower_slope(how);
  const double gain = how.gain.value_or(default_gain(how.act));
  const Tensor noise = terms.noise.defined() ? noise_maps(terms.noise, x) : terms.noise;
  const bool fits = has_fused_kernel(&FusedKernels::act, x) && alpha.has_value() && *alpha >= 0 &&
                    gain > 0 && noise.defined() == terms.noise.defined() &&
                    (!noise.defined() || no_derivative(noise));
  if (!fits) return std::nullopt;
  const auto in_type = [&](const Tensor& t) {
    return t.defined() ? std::optional<Tensor>(t.to(at::kFloat)) : std::nullopt;
  };
  return OnePass{in_type(terms.d),
                 noise.defined() ? in_type(terms.strength) : std::nullopt,
                 in_type(terms.bias),
                 in_type(noise),
                 {terms.scale, *alpha, gain, how.clamp.value_or(kNoClamp)}};
}

}  // namespace

Tensor modulated_act(const Tensor& x, const ModulatedAct& terms, const BiasAct& how) {
  const WithoutAutocast exact;
  const std::optional<OnePass> one = one_pass(x, terms, how);
  if (!one) return composed(x, terms, how);
  return ActFunction::apply(x, one->d, one->strength, one->bias, one->noise, one->numbers);
}

Tensor modulated_act_beside(const Tensor& added,
                            const Tensor& x,
                            const ModulatedAct& terms,
                            const BiasAct& how) {
  const WithoutAutocast exact;
  std::optional<OnePass> one;
  if (has_fused_kernel(&FusedKernels::act_added, x) && added.scalar_type() == x.scalar_type() &&
      added.sizes() == x.sizes())
    one = one_pass(x, terms, how);
  if (!one) return added + modulated_act(x, terms, how);
  return AddedActFunction::apply(
      x, added, one->d, one->strength, one->bias, one->noise, one->numbers);
}

StyledMaps modulated_act_for(const Tensor& x,
                             const ModulatedAct& terms,
                             const BiasAct& how,
                             const NextConv& next) {
  const WithoutAutocast exact;
  std::optional<OnePass> one;
  if (next.styles.defined() && has_fused_kernel(&FusedKernels::act_scaled, x))
    one = one_pass(x, terms, how);
  if (!one) return {modulated_act(x, terms, how), {}, next.styles};
  const Tensor styles = styles_for(next.type, in_statistics_type(next.styles));
  const ScaledActHow scaled{one->numbers, next.keep_x};
  const variable_list found = ScaledActFunction::apply(
      x, styles.to(at::kFloat), one->d, one->strength, one->bias, one->noise, scaled);
  return {next.keep_x ? found[0] : Tensor(), found.back(), styles};
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
