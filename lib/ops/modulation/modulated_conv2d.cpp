// SPDX-License-Identifier: Apache-2.0
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/convolution/convolution.h"
#include "ops/device_kernels.h"
#include "ops/modulation/modulation.h"
#include "ops/operator.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

Tensor cpu_plane_products(const Tensor& a_in, const Tensor& b_in) {
  const Tensor a = a_in.contiguous(), b = b_in.contiguous();
  Tensor sums = at::empty({a.size(0), a.size(1)}, a.options());
  auto* to = sums.mutable_data_ptr<float>();
  const int64_t length = a.size(2) * a.size(3);
  shared_out(sums.numel(), length, [&](int64_t begin, int64_t end) {
    cpu_kernels().modulation.row_products(floats(a), floats(b), to, length, begin, end);
  });
  return sums;
}

Tensor cpu_scaled_planes(const Tensor& w_in, const Tensor& by_in, double factor) {
  const Tensor w = w_in.contiguous(), by = by_in.contiguous();
  Tensor out = at::empty(w.sizes(), w.options());
  auto* to = out.mutable_data_ptr<float>();
  const int64_t length = w.size(2) * w.size(3);
  shared_out(by.numel(), length, [&](int64_t begin, int64_t end) {
    cpu_kernels().modulation.scaled_rows(
        floats(w), floats(by), static_cast<float>(factor), to, length, begin, end);
  });
  return out;
}

namespace {

struct ScaledPlanes;

// Sums of products over planes and planes times factors are each other's derivatives, so that two
// kernels serve derivatives of any order.
struct PlaneProducts : torch::autograd::Function<PlaneProducts> {
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b) {
    save(context, {a, b});
    return fused_kernels_of(a).plane_products(a, b);
  }
  static variable_list backward(AutogradContext* context, variable_list grad);
};

struct ScaledPlanes : torch::autograd::Function<ScaledPlanes> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& w,
                        const Tensor& by,
                        double factor) {
    save(context, {w, by});
    context->saved_data["factor"] = factor;
    return fused_kernels_of(w).scaled_planes(w, by, factor);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    variable_list result(3);
    if (!grad[0].defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const double factor = context->saved_data["factor"].toDouble();
    if (context->needs_input_grad(0)) result[0] = apply(grad[0], saved[1], factor);
    if (context->needs_input_grad(1)) result[1] = PlaneProducts::apply(grad[0], saved[0]) * factor;
    return result;
  }
};

variable_list PlaneProducts::backward(AutogradContext* context, variable_list grad) {
  variable_list result(2);
  if (!grad[0].defined()) return result;
  const WithoutAutocast exact;
  const variable_list saved = context->get_saved_variables();
  if (context->needs_input_grad(0)) result[0] = ScaledPlanes::apply(saved[1], grad[0], 1.0);
  if (context->needs_input_grad(1)) result[1] = ScaledPlanes::apply(saved[0], grad[0], 1.0);
  return result;
}

struct SquareSums : torch::autograd::Function<SquareSums> {
  static Tensor forward(AutogradContext* context, const Tensor& w) {
    save(context, {w});
    return fused_kernels_of(w).plane_products(w, w);
  }
  static variable_list backward(AutogradContext* context, variable_list grad) {
    if (!grad[0].defined()) return {Tensor()};
    const WithoutAutocast exact;
    return {ScaledPlanes::apply(context->get_saved_variables()[0], grad[0], 2.0)};
  }
};

}  // namespace

Tensor square_sums(const Tensor& w) {
  if (!has_fused_kernel(&FusedKernels::plane_products, w)) return w.square().sum({2, 3});
  return SquareSums::apply(w);
}

namespace {

ConvResample resampling(const ModulatedConv& how, int64_t groups) {
  const int64_t p = how.padding;
  return {how.up, how.down, {p, p, p, p}, groups, how.flip_weight};
}

// The factors [N, O] of eq. 3, which scale the weights of each sample's output channel to unit
// norm. Styles are the same for all of the kernel's pixels, so the sum over pixels comes first.
Tensor demodulation(const Tensor& weight, const Tensor& styles) {
  constexpr double kEps = 1e-8;
  const Tensor energy = square_sums(weight);  // [O, I]
  return (at::matmul(styles.square(), energy.t()) + kEps).rsqrt();
}

// One convolution with N groups, the samples side by side as channels.
Tensor fused(const Tensor& x,
             const Tensor& weight,
             const Tensor& styles,
             const Tensor& d,
             const Tensor& f,
             const ModulatedConv& how) {
  const int64_t n = x.size(0), out = weight.size(0), in = weight.size(1);
  Tensor w = weight.unsqueeze(0) * styles.reshape({n, 1, in, 1, 1});
  if (d.defined()) w = w * d.reshape({n, out, 1, 1, 1});
  const Tensor y =
      conv2d_resample(x.reshape({1, n * in, x.size(2), x.size(3)}),
                      w.to(x.scalar_type()).reshape({n * out, in, w.size(3), w.size(4)}),
                      f,
                      resampling(how, n));
  return y.reshape({n, out, y.size(2), y.size(3)});
}

// The same convolution, but x is scaled and not the weight; the result is yet to be scaled by the
// demodulation.
Tensor scaled(const Tensor& x,
              const Tensor& weight,
              const Tensor& styles,
              const Tensor& f,
              const ModulatedConv& how) {
  const at::ScalarType type = x.scalar_type();
  return conv2d_resample(channels_scaled(x, styles), weight.to(type), f, resampling(how, 1));
}

}  // namespace

Tensor modulated_layer(const Tensor& x_in,
                       const Tensor& weight_in,
                       const Tensor& styles_in,
                       const Tensor& f,
                       const ModulatedConv& how,
                       const ModulatedAct& after_in,
                       const BiasAct& act) {
  const at::ScalarType type = convolution_type(x_in);
  const WithoutAutocast exact;
  const Tensor x = x_in.to(type);
  Tensor weight = in_statistics_type(weight_in);
  Tensor styles = in_statistics_type(styles_in);
  if (how.demodulate && type == at::kHalf) {
    // This factor cancels in the demodulation. It keeps the sums of products inside float16's
    // range.
    const auto fan_in = static_cast<double>(weight.size(1) * weight.size(2) * weight.size(3));
    weight = weight / (std::sqrt(fan_in) * weight.abs().amax({1, 2, 3}, /*keepdim=*/true));
    styles = styles / styles.abs().amax(1, /*keepdim=*/true);
  }
  const Tensor d = how.demodulate ? demodulation(weight, styles) : Tensor();
  if (how.fused) return modulated_act(fused(x, weight, styles, d, f, how), after_in, act);
  ModulatedAct after = after_in;
  after.d = d;
  return modulated_act(scaled(x, weight, styles, f, how), after, act);
}

}  // namespace gantrain
