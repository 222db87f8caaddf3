// SPDX-License-Identifier: Apache-2.0
#include "ops/adain.h"

#include "core/torch.h"
#include "ops/autograd.h"
#include "ops/fused_kernels.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// In half precision 1e-8 is rounded to 0.
Tensor wide(const Tensor& x) { return x.to(statistics_type(x.scalar_type())); }

struct Centred {
  Tensor x;        // minus its mean
  Tensor inverse;  // of its standard deviation, [N, C, 1, 1]
};

Centred centre(const Tensor& x, double eps) {
  const Tensor centred = x - x.mean({2, 3}, /*keepdim=*/true);
  return {centred, (centred.square().mean({2, 3}, /*keepdim=*/true) + eps).rsqrt()};
}

struct Style {
  Tensor scale, shift;  // [N, C, 1, 1]
};

Style split_style(const Tensor& style, int64_t channels) {
  TORCH_CHECK(style.dim() == 2 && style.size(1) == 2 * channels,
              "a style for ",
              channels,
              " channels is [N, ",
              2 * channels,
              "], not ",
              style.sizes());
  const Tensor both = style.reshape({style.size(0), 2, channels, 1, 1});
  return {both.select(1, 0) + 1, both.select(1, 1)};
}

// The derivatives by x and the style, out of operators that are differentiable again. With n = (x -
// mean) / deviation: dx = (1 + s) / deviation (dy - mean(dy) - n mean(dy n)), ds = sum(dy n), db =
// sum(dy).
variable_list composed_gradient(const Tensor& dy_in,
                                const Tensor& x,
                                const Tensor& style,
                                double eps) {
  const Tensor dy = wide(dy_in);
  const Centred c = centre(wide(x), eps);
  const Style s = split_style(wide(style), x.size(1));
  const Tensor n = c.x * c.inverse, along = dy * n;
  const Tensor dx =
      c.inverse * s.scale *
      (dy - dy.mean({2, 3}, /*keepdim=*/true) - n * along.mean({2, 3}, /*keepdim=*/true));
  const Tensor dstyle = at::cat({along.sum({2, 3}), dy.sum({2, 3})}, 1);
  return {dx.to(x.scalar_type()), dstyle.to(style.scalar_type())};
}

struct AdainFunction : torch::autograd::Function<AdainFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& x,
                        const Tensor& style,
                        double eps) {
    const auto [y, mean, inverse] = fused_kernels_of(x).adain(x, style, eps);
    context->save_for_backward({x, style, mean, inverse});
    context->set_materialize_grads(false);
    context->saved_data["eps"] = eps;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list dy) {
    variable_list result(3);
    if (!dy[0].defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &style = saved[1];
    if (at::GradMode::is_enabled()) {
      const variable_list both =
          composed_gradient(dy[0], x, style, context->saved_data["eps"].toDouble());
      result[0] = both[0];
      result[1] = both[1];
    } else {
      std::tie(result[0], result[1]) =
          fused_kernels_of(x).adain_gradient(dy[0], x, style, saved[2], saved[3]);
    }
    return result;
  }
};

}  // namespace

Tensor instance_norm(const Tensor& x, double eps) {
  const WithoutAutocast exact;
  const Centred c = centre(wide(x), eps);
  return (c.x * c.inverse).to(x.scalar_type());
}

Tensor modulate(const Tensor& x, const Tensor& style) {
  const Style s = split_style(style, x.size(1));
  return at::addcmul(s.shift, x, s.scale);
}

Tensor adain(const Tensor& x, const Tensor& style, double eps) {
  const WithoutAutocast exact;
  const Style s = split_style(wide(style), x.size(1));
  if (has_fused_kernel(&FusedKernels::adain, x) && style.scalar_type() == at::kFloat)
    return AdainFunction::apply(x, style, eps);
  const Centred c = centre(wide(x), eps);
  return at::addcmul(s.shift, c.x, c.inverse * s.scale).to(x.scalar_type());
}

}  // namespace gantrain
