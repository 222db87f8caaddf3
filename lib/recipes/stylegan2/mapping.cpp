// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/mapping.h"

#include <torch/torch.h>

#include "core/forward_precision.h"
#include "ops/pixel_norm.h"

namespace gantrain::stylegan2 {

using at::Tensor;

Mapping::Mapping(const MappingShape& s) : shape(s) {
  if (s.has_w_avg) w_avg = register_buffer("w_avg", torch::zeros({s.w_dim}));
  if (s.c_dim > 0) {
    embed = register_module("embed",
                            std::make_shared<FullyConnected>(
                                FullyConnected::Config{.in = s.c_dim, .out = s.embedding()}));
  }
  int64_t in = s.z_dim + s.embedding();
  for (int64_t i = 0; i < s.num_layers; ++i) {
    const bool last = i + 1 == s.num_layers;
    const int64_t out = last ? s.w_dim : s.layer_features.value_or(s.w_dim);
    fc.push_back(register_module(
        "fc" + std::to_string(i),
        std::make_shared<FullyConnected>(FullyConnected::Config{
            .in = in, .out = out, .act = Activation::kLrelu, .lr_multiplier = s.lr_multiplier})));
    in = out;
  }
}

Tensor Mapping::forward(const Tensor& z, const Tensor& labels) {
  const AutocastDisabled exact("latents and styles scale everything else");
  note_computed(fc.front()->weight.scalar_type());
  const auto options = fc.front()->weight.options().requires_grad(false);
  Tensor x;
  if (shape.z_dim > 0) x = pixel_norm(z.to(options));
  if (embed) {
    TORCH_CHECK(labels.defined(), "a conditional network needs labels");
    const Tensor c = at::one_hot(labels.to(options.device()), shape.c_dim).to(options);
    const Tensor y = pixel_norm(embed->forward(c));
    x = x.defined() ? torch::cat({x, y}, 1) : y;
  }
  for (const auto& layer : fc) x = layer->forward(x);
  return x;
}

void Mapping::move_w_avg(const Tensor& mean) {
  const torch::NoGradGuard no_grad;
  w_avg.lerp_(mean.to(w_avg.options()), 1 - shape.w_avg_beta);
}

Tensor Mapping::truncated(const Tensor& ws, double psi, std::optional<int64_t> cutoff) const {
  if (psi == 1) return ws;
  const int64_t layers = std::clamp<int64_t>(cutoff.value_or(ws.size(1)), 0, ws.size(1));
  const Tensor moved = w_avg + (ws.narrow(1, 0, layers) - w_avg) * psi;
  return torch::cat({moved, ws.narrow(1, layers, ws.size(1) - layers)}, 1);
}

Tensor for_all_layers(const Tensor& w, int64_t num_ws) {
  return w.unsqueeze(1).repeat({1, num_ws, 1});
}

}  // namespace gantrain::stylegan2
