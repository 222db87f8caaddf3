// SPDX-License-Identifier: Apache-2.0
#include "ops/modulated_conv2d.h"

#include "core/torch.h"
#include "ops/conv2d_resample.h"
#include "ops/precision.h"
#include "ops/square_sums.h"

namespace gantrain {

using at::Tensor;

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
  Tensor weight = weight_in.to(statistics_type(weight_in.scalar_type()));
  Tensor styles = styles_in.to(statistics_type(styles_in.scalar_type()));
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

Tensor modulated_conv2d(const Tensor& x,
                        const Tensor& weight,
                        const Tensor& styles,
                        const Tensor& noise,
                        const Tensor& f,
                        const ModulatedConv& how) {
  return modulated_layer(x, weight, styles, f, how, {.noise = noise}, {});
}

}  // namespace gantrain
