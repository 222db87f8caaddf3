// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_act.h"

#include <limits>

#include "core/torch.h"
#include "ops/autograd.h"
#include "ops/device_kernels.h"
#include "ops/kernels.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

std::optional<Tensor> present(const Tensor& t) {
  return t.defined() ? std::optional<Tensor>(t) : std::nullopt;
}

// A derivative by b, spread over the places of x.
Tensor spread(const Tensor& db, int64_t dim, at::IntArrayRef sizes) {
  std::vector<int64_t> shape(sizes.size(), 1);
  shape[dim] = db.size(0);
  return db.reshape(shape).expand(sizes);
}

struct GradientHow {
  BiasActNumbers numbers;
  bool sum_to_bias;
  std::vector<int64_t> sizes;  // of x
};

// (dy, from, b) -> dx and, where it is asked for, db. Where `from` is y, the second derivative
// reaches x through y's own node.
struct BiasActGradient : torch::autograd::Function<BiasActGradient> {
  static variable_list forward(AutogradContext* context,
                               const Tensor& dy,
                               const std::optional<Tensor>& from,
                               const std::optional<Tensor>& b,
                               const GradientHow& how) {
    const BiasActNumbers& n = how.numbers;
    const Tensor saved = from.value_or(Tensor()), bias = b.value_or(Tensor());
    context->save_for_backward({has_second_derivative(n.act) ? dy : Tensor(), saved, bias});
    hold(context, "how", how);
    context->set_materialize_grads(false);
    const BiasActGradients found =
        device_kernels(dy.device().type()).bias_act_gradient(dy, saved, bias, n, how.sum_to_bias);
    return how.sum_to_bias ? variable_list{found.dx, found.db} : variable_list{found.dx};
  }

  static variable_list backward(AutogradContext* context, variable_list v) {
    variable_list result(4);
    const WithoutAutocast exact;
    const auto& how = held<GradientHow>(context, "how");
    const BiasActNumbers& n = how.numbers;
    Tensor along = v[0];  // the direction in the space of dx
    if (how.sum_to_bias && v[1].defined()) {
      const Tensor everywhere = spread(v[1], n.dim, how.sizes);
      along = along.defined() ? along + everywhere : everywhere;
    }
    if (!along.defined()) return result;
    const variable_list saved = context->get_saved_variables();
    const Tensor &dy = saved[0], &from = saved[1], &b = saved[2];
    if (context->needs_input_grad(0))
      result[0] = apply(along, present(from), present(b), GradientHow{n, false, how.sizes})[0];
    if (!has_second_derivative(n.act)) return result;
    // Compositions are differentiable again, for derivatives of the third order and above.
    const DeviceKernels& kernels =
        at::GradMode::is_enabled() ? kComposedKernels : device_kernels(dy.device().type());
    result[1] = kernels.bias_act_double_backward(along, dy, from, b, n);
    if (b.defined()) result[2] = summed_to_bias(result[1], n.dim);
    return result;
  }
};

struct BiasActFunction : torch::autograd::Function<BiasActFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& x,
                        const std::optional<Tensor>& b,
                        const BiasActNumbers& how) {
    const Tensor bias = b.value_or(Tensor());
    const Tensor y = device_kernels(x.device().type()).bias_act(x, bias, how);
    const Saved what = saved_by(how);
    context->save_for_backward({what == Saved::kOutput  ? y
                                : what == Saved::kInput ? x
                                                        : Tensor(),
                                what == Saved::kInput ? bias : Tensor()});
    hold(context, "how", how);
    hold(context, "biased", bias.defined());
    context->set_materialize_grads(false);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list dy) {
    variable_list result(3);
    if (!dy[0].defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const auto& how = held<BiasActNumbers>(context, "how");
    const bool sum_to_bias = held<bool>(context, "biased") && context->needs_input_grad(1);
    // Where the slope is piecewise constant, no derivative goes on to `from`.
    const Tensor from =
        has_second_derivative(how.act) || !saved[0].defined() ? saved[0] : saved[0].detach();
    const variable_list found =
        BiasActGradient::apply(dy[0],
                               present(from),
                               present(saved[1]),
                               GradientHow{how, sum_to_bias, dy[0].sizes().vec()});
    result[0] = found[0];
    if (sum_to_bias) result[1] = found[1];
    return result;
  }
};

BiasActNumbers numbers(const BiasAct& how, int64_t axes) {
  constexpr double kLreluSlope = 0.2;
  const BiasActNumbers n{how.act,
                         how.dim < 0 ? how.dim + axes : how.dim,
                         how.alpha.value_or(kLreluSlope),
                         how.gain.value_or(default_gain(how.act)),
                         how.clamp.value_or(std::numeric_limits<double>::infinity())};
  // Otherwise the sign of y would not tell the sign of x.
  TORCH_CHECK(n.alpha >= 0 && n.gain != 0, "bias_act: alpha must be at least 0, gain not 0");
  TORCH_CHECK(n.clamp > 0, "bias_act: clamp must be over 0");
  return n;
}

}  // namespace

double default_gain(Activation act) {
  switch (act) {
    case Activation::kRelu:
    case Activation::kLrelu:
    case Activation::kSwish:
      return std::sqrt(2.0);
    default:
      return 1;
  }
}

Saved saved_by(const BiasActNumbers& how) {
  if (how.act == Activation::kSwish) return Saved::kInput;
  const bool constant = how.act == Activation::kLinear && std::isinf(how.clamp);
  return constant ? Saved::kNothing : Saved::kOutput;
}

Tensor summed_to_bias(const Tensor& dx, int64_t dim) {
  std::vector<int64_t> others;
  for (int64_t d = 0; d < dx.dim(); ++d) {
    if (d != dim) others.push_back(d);
  }
  return others.empty() ? dx : dx.sum(others);
}

bool has_second_derivative(Activation act) {
  return act != Activation::kLinear && act != Activation::kRelu && act != Activation::kLrelu;
}

Tensor bias_act(const Tensor& x, const Tensor& b, const BiasAct& how) {
  const BiasActNumbers n = numbers(how, x.dim());
  TORCH_CHECK(
      !b.defined() || (n.dim >= 0 && n.dim < x.dim() && b.dim() == 1 && b.size(0) == x.size(n.dim)),
      "bias_act: no bias ",
      b.sizes(),
      " along axis ",
      n.dim,
      " of ",
      x.sizes());
  const WithoutAutocast exact;
  const Tensor bias = b.defined() ? b.to(x.scalar_type()) : b;
  if (kernels_in_use() == KernelSet::kRef) return kComposedKernels.bias_act(x, bias, n);
  return BiasActFunction::apply(x, present(bias), n);
}

}  // namespace gantrain
