// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_act/bias_act.h"

#include <algorithm>
#include <limits>

#include "core/parallel.h"
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/device_kernels.h"
#include "ops/kernels.h"
#include "ops/operator.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

namespace {

Tensor as_channels(const Tensor& b, int64_t dim, int64_t axes) {
  std::vector<int64_t> shape(axes, 1);
  shape[dim] = b.size(0);
  return b.reshape(shape);
}

Tensor activated(const Tensor& u, const BiasActNumbers& how) {
  switch (how.act) {
    case Activation::kLinear:
      return u;
    case Activation::kRelu:
      return u.relu();
    case Activation::kLrelu:
      return at::leaky_relu(u, how.alpha);
    case Activation::kTanh:
      return u.tanh();
    case Activation::kSigmoid:
      return u.sigmoid();
    case Activation::kElu:
      return at::elu(u);
    case Activation::kSelu:
      return at::selu(u);
    case Activation::kSoftplus:
      // log(1 + e^u) is u above the threshold, in float64 too.
      return at::softplus(u, /*beta=*/1, /*threshold=*/40);
    case Activation::kSwish:
      return u * u.sigmoid();
  }
  TORCH_CHECK(false, "no such activation");
}

// f' as a function of t = f(u).
Tensor slope_at_output(const Tensor& t, const BiasActNumbers& how) {
  switch (how.act) {
    case Activation::kLinear:
      return at::ones_like(t);
    case Activation::kRelu:
      return (t > 0).to(t.scalar_type());
    case Activation::kLrelu:
      return at::where(
          t > 0, at::scalar_tensor(1, t.options()), at::scalar_tensor(how.alpha, t.options()));
    default:
      break;
  }
  TORCH_CHECK(false, "the activation is not of two lines");
}

// 1 inside the clamp. Equality is outside: a clamped y cannot be told from one just there.
Tensor inside(const Tensor& dx, const Tensor& y, const BiasActNumbers& how) {
  if (std::isinf(how.clamp)) return dx;
  return at::where(y.abs() < how.clamp, dx, at::scalar_tensor(0, dx.options()));
}

Tensor composed_dx(const Tensor& dy, const Tensor& y_in, const BiasActNumbers& how) {
  if (how.constant_slope()) return dy * how.gain;
  const Tensor y = in_statistics_type(y_in), t = y / how.gain;
  return inside(dy * slope_at_output(t, how) * how.gain, y, how).to(dy.scalar_type());
}

bool has_kernel(const Tensor& x) { return x.scalar_type() == at::kFloat && x.numel() > 0; }

bool is_channels_last(const Tensor& x) {
  return !x.is_contiguous() && x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

// One call of a kernel. `by_channel` says that there is a bias, or a sum to one.
class Call {
 public:
  // `like` decides in which order the numbers of all tensors of the call lie.
  Call(const Tensor& like, const Tensor& b, const BiasActNumbers& how, bool by_channel)
      : like_(like), channels_(like.size(how.dim)) {
    const bool any_order = !by_channel && like.is_non_overlapping_and_dense();
    if (!any_order && !(is_channels_last(like) && how.dim == 1)) like_ = like.contiguous();
    task_ = {how.act,
             static_cast<float>(how.alpha),
             static_cast<float>(how.gain),
             static_cast<float>(how.clamp),
             /*outer=*/1,
             /*channels=*/1,
             /*inner=*/like.numel()};
    if (by_channel && channels_ > 1) {
      task_.channels = channels_;
      task_.inner = 1;
      if (like_.is_contiguous()) {
        for (int64_t d = how.dim + 1; d < like.dim(); ++d) task_.inner *= like.size(d);
      }
      task_.outer = like.numel() / (task_.channels * task_.inner);
    }
    units_ = bias_act_units(task_);
    if (!b.defined()) return;
    bias_ = b.contiguous();
    if (task_.inner == 1) bias_ = bias_.repeat({units_.columns / task_.channels});
  }

  const BiasActTask& task() const { return task_; }
  const float* bias() const { return floats(bias_); }
  Tensor result() const { return at::empty_like(like_); }

  // Returns t with its numbers in the order of the call.
  Tensor ordered(const Tensor& t) const {
    if (!t.defined() || t.strides() == like_.strides()) return t;
    return at::empty_like(like_).copy_(t);
  }

  Tensor sums() const { return at::empty({units_.count, units_.columns}, like_.options()); }

  // Adds the sums of units up in their order, which no number of threads changes.
  Tensor by_channel(const Tensor& sums) const {
    std::vector<double> totals(channels_);
    const auto* from = sums.const_data_ptr<float>();
    const int64_t in_channel = task_.inner > 1 ? units_.count / (task_.outer * task_.channels) : 1;
    for (int64_t i = 0; i < sums.numel(); ++i) totals[i / in_channel % channels_] += from[i];
    return at::tensor(totals, at::kDouble).to(at::kFloat);
  }

  // Calls body(first, last) for all units, shared out among threads.
  template <class Body>
  void run(const Body& body) const {
    constexpr int64_t kGrain = 32768;  // numbers that a thread is worth
    const int64_t each = task_.inner > 1 ? std::min(task_.inner, units_.numbers) : units_.numbers;
    parallel_for(0, units_.count, std::max<int64_t>(1, kGrain / each), body);
  }

 private:
  Tensor like_, bias_;
  int64_t channels_;
  BiasActTask task_{};
  BiasActUnits units_{};
};

}  // namespace

Tensor composed_bias_act(const Tensor& x, const Tensor& b, const BiasActNumbers& how) {
  const at::ScalarType type = statistics_type(x.scalar_type());
  Tensor y = x.to(type);
  if (b.defined()) y = y + as_channels(b.to(type), how.dim, x.dim());
  y = activated(y, how);
  if (how.gain != 1) y = y * how.gain;
  if (!std::isinf(how.clamp)) y = y.clamp(-how.clamp, how.clamp);
  y = y.to(x.scalar_type());
  return y.is_same(x) ? x.clone() : y;
}

BiasActGradients composed_bias_act_gradient(const Tensor& dy,
                                            const Tensor& y,
                                            const BiasActNumbers& how,
                                            bool sum_to_bias) {
  const Tensor dx = composed_dx(dy, y, how);
  return {dx, sum_to_bias ? summed_to_bias(dx, how.dim) : Tensor()};
}

Tensor cpu_bias_act(const Tensor& x, const Tensor& b, const BiasActNumbers& how) {
  if (!has_kernel(x)) return kComposedKernels.bias_act(x, b, how);
  const Call call(x, b, how, b.defined());
  const Tensor in = call.ordered(x);
  Tensor y = call.result();
  auto* to = y.mutable_data_ptr<float>();
  call.run([&](int64_t first, int64_t last) {
    cpu_kernels().bias_act.forward(call.task(), floats(in), call.bias(), to, first, last);
  });
  return y;
}

BiasActGradients cpu_bias_act_gradient(const Tensor& dy,
                                       const Tensor& y,
                                       const BiasActNumbers& how,
                                       bool sum_to_bias) {
  if (!has_kernel(dy)) return kComposedKernels.bias_act_gradient(dy, y, how, sum_to_bias);
  const Call call(y.defined() ? y : dy, {}, how, sum_to_bias);
  const Tensor in = call.ordered(dy), saved = call.ordered(y);
  const bool equal = !y.defined() && how.gain == 1;
  if (equal && !sum_to_bias) return {dy, {}};
  Tensor dx = equal ? dy : call.result();
  const Tensor sums = sum_to_bias ? call.sums() : Tensor();
  auto* to = equal ? nullptr : dx.mutable_data_ptr<float>();
  auto* sums_to = sum_to_bias ? sums.mutable_data_ptr<float>() : nullptr;
  call.run([&](int64_t first, int64_t last) {
    cpu_kernels().bias_act.gradient(
        call.task(), floats(in), floats(saved), to, sums_to, first, last);
  });
  return {dx, sum_to_bias ? call.by_channel(sums) : Tensor()};
}

namespace {

// (dy, y) -> dx and, where it is asked for, db. The slope is piecewise constant, so that no
// derivative goes on to y.
struct BiasActGradient : torch::autograd::Function<BiasActGradient> {
  static variable_list forward(AutogradContext* context,
                               const Tensor& dy,
                               const std::optional<Tensor>& y,
                               const BiasActNumbers& how,
                               bool sum_to_bias) {
    const Tensor saved = y.value_or(Tensor());
    save(context, {saved});
    hold(context, "how", how);
    hold(context, "sizes", dy.sizes().vec());
    const BiasActGradients found =
        device_kernels(dy.device().type()).bias_act_gradient(dy, saved, how, sum_to_bias);
    return sum_to_bias ? variable_list{found.dx, found.db} : variable_list{found.dx};
  }

  static variable_list backward(AutogradContext* context, variable_list v) {
    variable_list result(4);
    const WithoutAutocast exact;
    const auto& how = held<BiasActNumbers>(context, "how");
    const auto& sizes = held<std::vector<int64_t>>(context, "sizes");
    Tensor along = v[0];  // the direction in the space of dx
    if (v.size() > 1 && v[1].defined()) {
      const auto axes = static_cast<int64_t>(sizes.size());
      const Tensor everywhere = as_channels(v[1], how.dim, axes).expand(sizes);
      along = along.defined() ? along + everywhere : everywhere;
    }
    if (along.defined() && context->needs_input_grad(0))
      result[0] = apply(along, present(context->get_saved_variables()[0]), how, false)[0];
    return result;
  }
};

// Saving the output lets go of the input, which would otherwise stay in memory until the backward
// pass.
struct BiasActFunction : torch::autograd::Function<BiasActFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& x,
                        const std::optional<Tensor>& b,
                        const BiasActNumbers& how) {
    const Tensor y = device_kernels(x.device().type()).bias_act(x, b.value_or(Tensor()), how);
    save(context, {how.constant_slope() ? Tensor() : y});
    hold(context, "how", how);
    hold(context, "biased", b.has_value());
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list dy) {
    variable_list result(3);
    if (!dy[0].defined()) return result;
    const WithoutAutocast exact;
    const Tensor y = context->get_saved_variables()[0];
    const bool sum_to_bias = held<bool>(context, "biased") && context->needs_input_grad(1);
    const auto& how = held<BiasActNumbers>(context, "how");
    const variable_list found =
        BiasActGradient::apply(dy[0], present(y.defined() ? y.detach() : y), how, sum_to_bias);
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

bool BiasActNumbers::constant_slope() const {
  return act == Activation::kLinear && std::isinf(clamp);
}

Tensor summed_to_bias(const Tensor& dx, int64_t dim) {
  std::vector<int64_t> others;
  for (int64_t d = 0; d < dx.dim(); ++d) {
    if (d != dim) others.push_back(d);
  }
  return others.empty() ? dx : dx.sum(others);
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
  if (kernels_in_use() == KernelSet::kRef || !is_two_lines(n.act))
    return kComposedKernels.bias_act(x, bias, n);
  return BiasActFunction::apply(x, present(bias), n);
}

}  // namespace gantrain
