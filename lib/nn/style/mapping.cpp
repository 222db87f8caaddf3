// SPDX-License-Identifier: Apache-2.0
#include "nn/style/mapping.h"

#include "core/forward_precision.h"
#include "core/torch.h"
#include "ops/pixel_norm.h"

namespace gantrain {

using at::Tensor;

StyleMapping::StyleMapping(const MappingShape& s) : shape(s) {
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

namespace {

// [N, classes]: 1 where the class is the label. at::one_hot would ask for the largest label, which
// waits for the device.
Tensor one_hot(const Tensor& labels, int64_t classes, const at::TensorOptions& options) {
  const Tensor index = labels.to(options.device()).unsqueeze(1);
  return at::zeros({labels.size(0), classes}, options).scatter_(1, index, 1);
}

}  // namespace

Tensor StyleMapping::forward(const Tensor& z, const Tensor& labels) {
  const AutocastDisabled exact("latents and styles scale everything else");
  note_computed(fc.front()->weight.scalar_type());
  const auto options = fc.front()->weight.options().requires_grad(false);
  Tensor x;
  if (shape.z_dim > 0) x = pixel_norm(z.to(options));
  if (embed) {
    TORCH_CHECK(labels.defined(), "a conditional network needs labels");
    const Tensor y = pixel_norm(embed->forward(one_hot(labels, shape.c_dim, options)));
    x = x.defined() ? torch::cat({x, y}, 1) : y;
  }
  for (const auto& layer : fc) x = layer->forward(x);
  return x;
}

}  // namespace gantrain
