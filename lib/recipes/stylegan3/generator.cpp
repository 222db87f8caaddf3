// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/generator.h"

#include <numbers>

#include "core/forward_precision.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "nn/style/styles.h"

namespace gantrain::stylegan3 {

using at::Tensor;

Synthesis::Synthesis(const SynthesisShape& s, int64_t w_dim)
    : num_ws(s.num_layers + 2), output_scale(s.output_scale) {
  const std::vector<LayerPlan> plans = layers_of(s);
  const Signal& first = plans.front().in;
  input = register_module("input",
                          std::make_shared<SynthesisInput>(first, w_dim, first.size, first.size));
  for (const LayerPlan& plan : plans)
    layers.push_back(register_module(plan.name, std::make_shared<SynthesisLayer>(plan, s, w_dim)));
}

Tensor Synthesis::forward(const Tensor& ws, MagnitudeUpdate* update, const Tensor& transform) {
  TORCH_CHECK(
      ws.dim() == 3 && ws.size(1) == num_ws, "ws ", ws.sizes(), ": [N, ", num_ws, ", w_dim]");
  const Tensor w = ws.to(input->weight.scalar_type());
  Tensor x = [&] {
    const BlockScope named("input");
    return input->forward(w.select(1, 0), transform);
  }();
  for (size_t i = 0; i < layers.size(); ++i)
    x = layers[i]->forward(x, w.select(1, static_cast<int64_t>(i) + 1), update);
  return x.to(w.scalar_type()) * output_scale;
}

Generator::Generator(const GeneratorShape& s) : shape(s) {
  synthesis =
      register_module("synthesis", std::make_shared<Synthesis>(s.synthesis, s.mapping.w_dim));
  mapping = register_module("mapping", std::make_shared<StyleMapping>(s.mapping));
}

Tensor Generator::forward(const Tensor& z, const Tensor& labels) {
  const Tensor w = [&] {
    const BlockScope named("mapping");
    return mapping->forward(z, labels);
  }();
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

Tensor sum_of_magnitudes(const MagnitudeUpdate& update) {
  const Tensor means = at::stack(update.mean_squares);
  return at::cat({means, at::ones({1}, means.options())});
}

void move_magnitudes_(const Synthesis& synthesis, const Tensor& sum) {
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(synthesis.layers.size());
  const Tensor means = sum.narrow(0, 0, count) / sum[count];
  for (int64_t i = 0; i < count; ++i) {
    const SynthesisLayer& layer = *synthesis.layers[static_cast<size_t>(i)];
    const Tensor now = means[i].to(layer.magnitude_ema.options());
    layer.magnitude_ema.copy_(now + layer.magnitude_beta * (layer.magnitude_ema - now));
  }
}

}  // namespace gantrain::stylegan3
