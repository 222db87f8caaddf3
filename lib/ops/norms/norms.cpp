// SPDX-License-Identifier: Apache-2.0
#include "ops/norms/norms.h"

#include <algorithm>

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/device_kernels.h"
#include "ops/operator.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

namespace {

NormMaps maps_of(const Tensor& x, double eps) {
  return {x.size(1), x.size(2) * x.size(3), static_cast<float>(eps)};
}

int64_t bands_of(const NormMaps& maps) { return (maps.pixels + kPixelBand - 1) / kPixelBand; }

}  // namespace

Tensor cpu_pixel_norm(const Tensor& x_in, double eps) {
  const Tensor x = x_in.contiguous();
  const NormMaps maps = maps_of(x, eps);
  Tensor out = at::empty(x.sizes(), x.options());
  auto* to = out.mutable_data_ptr<float>();
  const int64_t each = maps.channels * std::min(kPixelBand, maps.pixels);
  shared_out(x.size(0) * bands_of(maps), each, [&](int64_t begin, int64_t end) {
    cpu_kernels().norms.pixel_norm(maps, floats(x), to, begin, end);
  });
  return out;
}

Tensor cpu_pixel_norm_gradient(const Tensor& dout_in, const Tensor& x_in, double eps) {
  const Tensor dout = dout_in.contiguous(), x = x_in.contiguous();
  const NormMaps maps = maps_of(x, eps);
  Tensor dx = at::empty(x.sizes(), x.options());
  auto* to = dx.mutable_data_ptr<float>();
  const int64_t each = maps.channels * std::min(kPixelBand, maps.pixels);
  shared_out(x.size(0) * bands_of(maps), each, [&](int64_t begin, int64_t end) {
    cpu_kernels().norms.pixel_norm_gradient(maps, floats(dout), floats(x), to, begin, end);
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
  const AdainInput input{floats(x), floats(style)};
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
  const AdainMoments moments{floats(mean), floats(inverse)};
  const AdainInput input{floats(x), floats(style)};
  const AdainGradient result{dx.mutable_data_ptr<float>(), dstyle.mutable_data_ptr<float>()};
  shared_out(mean.numel(), maps.pixels, [&](int64_t begin, int64_t end) {
    cpu_kernels().norms.adain_gradient(maps, input, moments, floats(dout), result, begin, end);
  });
  return {dx, dstyle};
}

namespace {

// With r = 1 / sqrt(mean(x^2) + eps): dx = r dy - x r^3 mean(dy x), out of operators that are
// differentiable again.
Tensor composed_gradient(const Tensor& dy_in, const Tensor& x_in, double eps) {
  const at::ScalarType type = statistics_type(x_in.scalar_type());
  const Tensor dy = dy_in.to(type), x = x_in.to(type);
  const Tensor r = (x.square().mean(1, /*keepdim=*/true) + eps).rsqrt();
  const Tensor dx = r * (dy - x * r.square() * (dy * x).mean(1, /*keepdim=*/true));
  return dx.to(x_in.scalar_type());
}

struct PixelNormFunction : torch::autograd::Function<PixelNormFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, double eps) {
    save(context, {x});
    context->saved_data["eps"] = eps;
    return fused_kernels_of(x).pixel_norm(x, eps);
  }

  static variable_list backward(AutogradContext* context, variable_list dy) {
    variable_list result(2);
    if (!dy[0].defined()) return result;
    const WithoutAutocast exact;
    const Tensor x = context->get_saved_variables()[0];
    const double eps = context->saved_data["eps"].toDouble();
    result[0] = at::GradMode::is_enabled() ? composed_gradient(dy[0], x, eps)
                                           : fused_kernels_of(x).pixel_norm_gradient(dy[0], x, eps);
    return result;
  }
};

}  // namespace

Tensor pixel_norm(const Tensor& x, double eps, int64_t dim) {
  const WithoutAutocast exact;
  if (x.dim() == 4 && dim == 1 && has_fused_kernel(&FusedKernels::pixel_norm, x))
    return PixelNormFunction::apply(x, eps);
  const Tensor wide = in_statistics_type(x);
  const Tensor square = wide.square().mean(dim, /*keepdim=*/true);
  return (wide * (square + eps).rsqrt()).to(x.scalar_type());
}

namespace {

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
  const Tensor dy = in_statistics_type(dy_in);
  const Centred c = centre(in_statistics_type(x), eps);
  const Style s = split_style(in_statistics_type(style), x.size(1));
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
    save(context, {x, style, mean, inverse});
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

Tensor adain(const Tensor& x, const Tensor& style, double eps) {
  const WithoutAutocast exact;
  const Style s = split_style(in_statistics_type(style), x.size(1));
  if (has_fused_kernel(&FusedKernels::adain, x) && style.scalar_type() == at::kFloat)
    return AdainFunction::apply(x, style, eps);
  const Centred c = centre(in_statistics_type(x), eps);
  return at::addcmul(s.shift, c.x, c.inverse * s.scale).to(x.scalar_type());
}

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
