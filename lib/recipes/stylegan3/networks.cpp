// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numbers>

#include "core/torch.h"
#include "nn/modules.h"
#include "ops/autocast.h"
#include "ops/convolution/convolution.h"
#include "ops/filtered_lrelu/filtered_lrelu.h"
#include "ops/modulation/modulation.h"
#include "recipes/stylegan3/recipe.h"

namespace gantrain::stylegan3 {

namespace {

Tensor tensor_of(const std::vector<double>& taps, at::IntArrayRef shape) {
  return torch::tensor(taps, at::kDouble).reshape(shape).to(at::kFloat);
}

// x / rms(x), the mean of squares taken over `axes`, or over everything without axes.
Tensor normalised(const Tensor& x, at::IntArrayRef axes) {
  const Tensor squares = x.square();
  return x * (axes.empty() ? squares.mean() : squares.mean(axes, /*keepdim=*/true)).rsqrt();
}

// The middles of n pixels of a grid with `rate` pixels to the unit, around the origin.
Tensor pixel_middles(int64_t n, int64_t rate, const at::TensorOptions& options) {
  return (at::arange(n, options) + (0.5 - static_cast<double>(n) / 2)) / static_cast<double>(rate);
}

}  // namespace

// The demodulation is applied to the result and the styles to the input, so that all samples share
// the weight of one convolution.
Tensor modulated_conv(const Tensor& x_in,
                      const Tensor& weight_in,
                      const Tensor& styles_in,
                      const Modulation& how) {
  constexpr double kEps = 1e-8;
  const at::ScalarType type = convolution_type(x_in);
  const WithoutAutocast exact;
  const Tensor x = x_in.to(type);
  Tensor weight = weight_in.to(statistics_type(weight_in.scalar_type()));
  Tensor styles = styles_in.to(statistics_type(styles_in.scalar_type()));
  Tensor d;
  if (how.demodulate) {
    weight = normalised(weight, {1, 2, 3});
    styles = normalised(styles, {});
    d = (at::matmul(styles.square(), square_sums(weight).t()) + kEps).rsqrt();  // [N, O]
  }
  if (how.input_gain.defined()) styles = styles * how.input_gain;
  ConvResample place;
  place.padding = {how.padding, how.padding, how.padding, how.padding};
  const Tensor y = conv2d_resample(channels_scaled(x, styles), weight.to(type), {}, place);
  return d.defined() ? channels_scaled(y, d) : y;
}

SynthesisInput::SynthesisInput(const Signal& s, int64_t w_dim, int64_t w, int64_t h)
    : signal(s), width(w), height(h) {
  weight = register_parameter("weight", torch::zeros({s.channels, s.channels}));
  affine =
      add_child<FullyConnected>(*this, "affine", FullyConnected::Config{.in = w_dim, .out = 4});
  transform = register_buffer("transform", torch::eye(3));
  freqs = register_buffer("freqs", torch::zeros({s.channels, 2}));
  phases = register_buffer("phases", torch::zeros({s.channels}));
  const torch::NoGradGuard no_grad;
  affine->bias[0] = 1;  // no rotation, no translation
}

// M_w = [[c, -s, 0], [s, c, 0], [0, 0, 1]] [[1, 0, -x], [0, 1, -y], [0, 0, 1]]: app. F.3.
Tensor SynthesisInput::transforms(const Tensor& w, const Tensor& given) {
  const Tensor raw = affine->forward(w);
  const Tensor t = raw / raw.narrow(1, 0, 2).norm(2, 1, /*keepdim=*/true);
  const Tensor c = t.select(1, 0), s = t.select(1, 1), x = t.select(1, 2), y = t.select(1, 3);
  const Tensor zero = at::zeros_like(c), one = at::ones_like(c);
  const auto matrix = [&](at::TensorList entries) {
    return at::stack(entries, 1).reshape({-1, 3, 3});
  };
  const Tensor rotation = matrix({c, -s, zero, s, c, zero, zero, zero, one});
  const Tensor translation = matrix({one, zero, -x, zero, one, -y, zero, zero, one});
  return at::matmul(at::matmul(rotation, translation), given);
}

Tensor SynthesisInput::forward(const Tensor& w, const Tensor& given) {
  const AutocastDisabled exact("positions of the input's waves");
  note_computed(weight.scalar_type());
  const Tensor m = transforms(w, given.defined() ? given.to(transform.options()) : transform);
  // phases + freqs m[:2, 2] [N, C]; freqs m[:2, :2] [N, C, 2]
  const Tensor linear = m.narrow(1, 0, 2).narrow(2, 0, 2);
  const Tensor shift = m.narrow(1, 0, 2).narrow(2, 2, 1);
  const Tensor phase = phases + at::matmul(freqs, shift).squeeze(2);
  const Tensor f = at::matmul(freqs, linear);

  // Waves that the transform moved above the bandlimit fade out.
  const double band = static_cast<double>(signal.rate) / 2 - signal.cutoff;
  const Tensor amplitude = (1 - (f.norm(2, 2) - signal.cutoff) / band).clamp(0, 1);

  const auto options = weight.options().requires_grad(false);
  const Tensor column = pixel_middles(width, signal.rate, options).reshape({1, 1, width, 1});
  const Tensor row = pixel_middles(height, signal.rate, options).reshape({1, height, 1, 1});
  const auto by_wave = [](const Tensor& t) { return t.reshape({t.size(0), 1, 1, t.size(1)}); };
  const Tensor turns =
      column * by_wave(f.select(2, 0)) + (row * by_wave(f.select(2, 1)) + by_wave(phase));
  const Tensor waves = at::sin(turns * (2 * std::numbers::pi)) * by_wave(amplitude);
  const Tensor mixed =
      at::matmul(waves, weight.t() / std::sqrt(static_cast<double>(signal.channels)));
  return mixed.permute({0, 3, 1, 2});  // [N, C, H, W], channels last in memory
}

SynthesisLayer::SynthesisLayer(const LayerPlan& p, const SynthesisShape& shape, int64_t w_dim)
    : plan(p), magnitude_beta(shape.magnitude_ema_beta), clamp(shape.conv_clamp) {
  weight = register_parameter("weight",
                              torch::zeros({p.out.channels, p.in.channels, p.kernel, p.kernel}));
  bias = register_parameter("bias", torch::zeros({p.out.channels}));
  affine = add_child<FullyConnected>(
      *this, "affine", FullyConnected::Config{.in = w_dim, .out = p.in.channels, .bias = 1});
  magnitude_ema = register_buffer("magnitude_ema", torch::ones({}));
  if (p.up_filter)
    up_filter = register_buffer("up_filter", tensor_of(separable_lowpass(*p.up_filter), {-1}));
  if (p.down_filter) {
    const int64_t taps = p.down_filter->taps;
    down_filter =
        register_buffer("down_filter",
                        p.down_is_radial ? tensor_of(radial_lowpass(*p.down_filter), {taps, taps})
                                         : tensor_of(separable_lowpass(*p.down_filter), {-1}));
  }
}

// The factor that gives the input unit magnitude, on average over the run (app. F.1).
Tensor SynthesisLayer::input_gain(const Tensor& x, MagnitudeUpdate* update) const {
  if (update == nullptr) return magnitude_ema.rsqrt();
  const torch::NoGradGuard no_grad;
  const Tensor narrow = x.detach();
  const Tensor now =
      narrow.to(statistics_type(narrow.scalar_type())).square().mean().to(magnitude_ema.options());
  update->mean_squares.push_back(now);
  return (now + magnitude_beta * (magnitude_ema - now)).rsqrt();
}

Tensor SynthesisLayer::forward(const Tensor& x_in, const Tensor& w, MagnitudeUpdate* update) {
  const BlockScope named(plan.name);
  const Tensor x = in_block_type(x_in, plan.half, weight);
  Tensor styles = affine->forward(w);
  // Without demodulation the equalised learning rate needs its factor.
  if (plan.to_rgb) styles = styles / std::sqrt(static_cast<double>(weight[0].numel()));
  const Tensor y = modulated_conv(x,
                                  weight,
                                  styles,
                                  {.demodulate = !plan.to_rgb,
                                   .padding = plan.kernel - 1,
                                   .input_gain = input_gain(x, update)});
  FilteredLrelu how;
  how.up_filter = up_filter;
  how.down_filter = down_filter;
  how.up = plan.up;
  how.down = plan.down;
  how.padding = plan.padding;
  how.gain = plan.to_rgb ? 1 : std::numbers::sqrt2;
  how.slope = plan.to_rgb ? 1 : 0.2;
  how.clamp = clamp.value_or(std::numeric_limits<double>::infinity());
  return filtered_lrelu(y, bias.to(y.scalar_type()), how);
}

Synthesis::Synthesis(const SynthesisShape& s, int64_t w_dim)
    : num_ws(s.num_layers + 2), output_scale(s.output_scale) {
  const std::vector<LayerPlan> plans = layers_of(s);
  const Signal& first = plans.front().in;
  input = add_child<SynthesisInput>(*this, "input", first, w_dim, first.size, first.size);
  for (const LayerPlan& plan : plans)
    layers.push_back(add_child<SynthesisLayer>(*this, plan.name, plan, s, w_dim));
}

Tensor Synthesis::forward(const Tensor& ws, MagnitudeUpdate* update, const Tensor& transform) {
  TORCH_CHECK(
      ws.dim() == 3 && ws.size(1) == num_ws, "ws ", ws.sizes(), ": [N, ", num_ws, ", w_dim]");
  const Tensor w = ws.to(input->weight.scalar_type());
  Tensor x = in_block("input", [&] { return input->forward(w.select(1, 0), transform); });
  for (size_t i = 0; i < layers.size(); ++i)
    x = layers[i]->forward(x, w.select(1, static_cast<int64_t>(i) + 1), update);
  return x.to(w.scalar_type()) * output_scale;
}

Generator::Generator(const GeneratorShape& s) : shape(s) {
  synthesis = add_child<Synthesis>(*this, "synthesis", s.synthesis, s.mapping.w_dim);
  mapping = add_child<StyleMapping>(*this, "mapping", s.mapping);
}

Tensor Generator::forward(const Tensor& z, const Tensor& labels) {
  const Tensor w = in_block("mapping", [&] { return mapping->forward(z, labels); });
  const BlockScope named("synthesis");
  return synthesis->forward(for_all_layers(w, shape.num_ws()));
}

// g ~ N(0, I) in two dimensions: exp(-|g|^2 / 4) is the root of a uniform number and independent
// of g's direction, so the frequencies are uniform in the disc.
void initialise(Generator& G, uint64_t seed) {
  initialise_style_layers(G, "G", seed);
  const torch::NoGradGuard no_grad;
  SynthesisInput& input = *G.synthesis->input;
  input.affine->weight.zero_();
  const Tensor g = normal_like(input.freqs, seed, "init/G/synthesis.input.freqs");
  const Tensor radius = g.norm(2, 1, /*keepdim=*/true);
  input.freqs.copy_(input.signal.cutoff * g / radius * (radius.square() / -4).exp());
  const Samples all{0, 1, input.phases.numel()};
  input.phases.copy_(uniform(Stream(seed, "init/G/synthesis.input.phases"), all, {1}).flatten() -
                     0.5);
}

}  // namespace gantrain::stylegan3
