// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "nn/style/mapping.h"
#include "recipes/stylegan3/layers.h"
#include "recipes/stylegan3/shape.h"

namespace gantrain::stylegan3 {

// The synthesis network (Karras et al. 2021, fig. 4b): ws [N, num_ws, w_dim] -> pictures
// [N, img_channels, R, R], about in [-1, 1], in the parameters' type.
struct Synthesis final : torch::nn::Module {
  Synthesis(const SynthesisShape& shape, int64_t w_dim);
  // `update`: the layers' inputs are normalised as SynthesisLayer says, and it gets their mean
  // squares. `transform`: as in SynthesisInput.
  at::Tensor forward(const at::Tensor& ws,
                     MagnitudeUpdate* update = nullptr,
                     const at::Tensor& transform = {});

  int64_t num_ws;
  double output_scale;
  std::shared_ptr<SynthesisInput> input;
  std::vector<std::shared_ptr<SynthesisLayer>> layers;
};

// Mapping and synthesis: z [N, z_dim], labels int64 [N] -> pictures [N, img_channels, R, R].
// Recipes call the children "mapping" and "synthesis" one by one. Names are those of the reference:
// "synthesis.L3_52_13.weight".
struct Generator final : torch::nn::Module {
  explicit Generator(const GeneratorShape& shape);
  at::Tensor forward(const at::Tensor& z, const at::Tensor& labels);

  GeneratorShape shape;
  std::shared_ptr<Synthesis> synthesis;
  std::shared_ptr<StyleMapping> mapping;
};

// Draws the weights, frequencies and phases of a fresh generator, so that they depend on the seed
// alone (initialise_style_layers). The transform learned from w starts as the identity.
void initialise(Generator& G, uint64_t seed);

// A micro-batch's share of the mean squares of the layers' inputs over the global batch,
// [layers + 1]: the means, and 1.
at::Tensor sum_of_magnitudes(const MagnitudeUpdate& update);
// The running means move once: m <- q + beta (m - q), q the mean over all micro-batches whose
// shares were added up.
void move_magnitudes_(const Synthesis& synthesis, const at::Tensor& sum);

}  // namespace gantrain::stylegan3
