// SPDX-License-Identifier: Apache-2.0
#include "ops/minibatch_std/minibatch_std.h"

#include <algorithm>

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/device_kernels.h"
#include "ops/operator.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

int64_t divisor_up_to(int64_t most, int64_t n) {
  int64_t divisor = std::clamp<int64_t>(most, 1, n);
  while (n % divisor != 0) --divisor;
  return divisor;
}

constexpr double kEps = 1e-8;

struct Groups {
  int64_t g, channels;
};

// [g, N / g, channels, C / channels, H, W].
Tensor grouped(const Tensor& x, const Groups& how) {
  const int64_t n = x.size(0), c = x.size(1);
  return x.reshape({how.g, n / how.g, how.channels, c / how.channels, x.size(2), x.size(3)});
}

Tensor composed(const Tensor& x, const Groups& how) {
  const int64_t n = x.size(0), h = x.size(2), w = x.size(3);
  const Tensor y = grouped(in_statistics_type(x), how);
  const Tensor variance = (y - y.mean(0)).square().mean(0);
  const Tensor deviation = (variance + kEps).sqrt().mean({2, 3, 4});  // [N / g, channels]
  const Tensor maps = deviation.to(x.scalar_type())
                          .repeat({how.g, 1})
                          .reshape({n, how.channels, 1, 1})
                          .expand({n, how.channels, h, w});
  return at::cat({x, maps}, 1);
}

// The derivative by x, out of operators that are differentiable again. A deviation's own is
// (x - mean) / (sqrt(variance + eps) g) of each number, averaged like the deviations.
Tensor composed_gradient(const Tensor& dout, const Tensor& x, const Groups& how) {
  const int64_t n = x.size(0), c = x.size(1);
  const at::ScalarType type = statistics_type(x.scalar_type());
  const Tensor y = grouped(x.to(type), how), slopes = dout.to(type);
  // Twice, because where samples are nearly equal a rounded mean is as far off as they are apart.
  const Tensor once = y - y.mean(0), centred = once - once.mean(0);
  const Tensor inverse = (centred.square().mean(0) + kEps).rsqrt();
  const auto averaged = static_cast<double>(c / how.channels * x.size(2) * x.size(3) * how.g);
  const Tensor of_maps = slopes.narrow(1, c, how.channels)
                             .sum({2, 3})
                             .reshape({how.g, n / how.g, how.channels, 1, 1, 1})
                             .sum(0) /
                         averaged;
  const Tensor dx = slopes.narrow(1, 0, c) + (centred * (inverse * of_maps)).reshape(x.sizes());
  return dx.to(x.scalar_type());
}

struct MinibatchStdFunction : torch::autograd::Function<MinibatchStdFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Groups& how) {
    save(context, {x});
    hold(context, "how", how);
    return fused_kernels_of(x).minibatch_std(x, how.g, how.channels, kEps);
  }

  static variable_list backward(AutogradContext* context, variable_list dout) {
    variable_list result(2);
    if (!dout[0].defined()) return result;
    const WithoutAutocast exact;
    const Tensor x = context->get_saved_variables()[0];
    const auto& how = held<Groups>(context, "how");
    result[0] = at::GradMode::is_enabled() ? composed_gradient(dout[0], x, how)
                                           : fused_kernels_of(x).minibatch_std_gradient(
                                                 dout[0], x, how.g, how.channels, kEps);
    return result;
  }
};

MinibatchStd sizes_of(const Tensor& x, int64_t g, int64_t parts, double eps) {
  const int64_t pixels = x.size(2) * x.size(3);
  return {g, x.size(0) / g, parts, x.size(1) / parts * pixels, pixels, static_cast<float>(eps)};
}

}  // namespace

Tensor cpu_minibatch_std(const Tensor& x_in, int64_t g, int64_t channels, double eps) {
  const Tensor x = x_in.contiguous();
  const MinibatchStd how = sizes_of(x, g, channels, eps);
  Tensor out = at::empty({x.size(0), x.size(1) + channels, x.size(2), x.size(3)}, x.options());
  auto* to = out.mutable_data_ptr<float>();
  shared_out(how.groups * how.parts, g * how.length, [&](int64_t begin, int64_t end) {
    cpu_kernels().minibatch_std.forward(how, floats(x), to, begin, end);
  });
  return out;
}

Tensor cpu_minibatch_std_gradient(
    const Tensor& dout_in, const Tensor& x_in, int64_t g, int64_t channels, double eps) {
  const Tensor dout = dout_in.contiguous(), x = x_in.contiguous();
  const MinibatchStd how = sizes_of(x, g, channels, eps);
  Tensor dx = at::empty(x.sizes(), x.options());
  auto* to = dx.mutable_data_ptr<float>();
  shared_out(how.groups * how.parts, g * how.length, [&](int64_t begin, int64_t end) {
    cpu_kernels().minibatch_std.gradient(how, floats(dout), floats(x), to, begin, end);
  });
  return dx;
}

Tensor minibatch_std(const Tensor& x, int64_t group, int64_t channels) {
  const int64_t n = x.size(0), c = x.size(1);
  TORCH_CHECK(group > 0 && n > 0, "minibatch_std: groups of ", group, " of ", n, " samples");
  TORCH_CHECK(channels > 0 && c % channels == 0,
              "minibatch_std: ",
              c,
              " channels are not a multiple of ",
              channels);
  const WithoutAutocast exact;
  const Groups how{divisor_up_to(group, n), channels};
  if (!has_fused_kernel(&FusedKernels::minibatch_std, x)) return composed(x, how);
  return MinibatchStdFunction::apply(x, how);
}

}  // namespace gantrain
