// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "recipes/r3gan/layers.h"
#include "recipes/r3gan/shape.h"

namespace gantrain::r3gan {

// The layers of one resolution: in G a basis or a transition and then blocks; in D blocks and then
// a transition or a basis. Exactly one of `start`, `transition` and `end` is set.
struct NetworkStage final : torch::nn::Module {
  std::string name;   // "Model.MainLayers.0"
  bool half = false;  // computes in bfloat16
  std::shared_ptr<GenerativeBasis> start;
  std::shared_ptr<Transition> transition;
  std::vector<std::shared_ptr<ResidualBlock>> blocks;
  std::shared_ptr<DiscriminativeBasis> end;
};

// z [N, z_dim] and labels, int64 [N] or undefined, -> pictures [N, C, H, W], about in [-1, 1]
// (Huang et al. 2024, sec. 3, fig. 4). z is used as it is. The pictures of a network whose last
// stage computes in bfloat16 are bfloat16.
struct Generator final : torch::nn::Module {
  explicit Generator(const Shape& shape);
  at::Tensor forward(const at::Tensor& z, const at::Tensor& labels);

  Shape shape;
  std::vector<std::shared_ptr<NetworkStage>> stages;  // the start first
  std::shared_ptr<Convolution> to_image;              // "AggregationLayer"
  std::shared_ptr<Weight> embedding;                  // "EmbeddingLayer"; null without classes
};

// Pictures x [N, C, H, W] and labels -> scores [N], float32. With classes the score is the product
// of the features with the embedded class (Miyato & Koyama 2018).
struct Discriminator final : torch::nn::Module {
  explicit Discriminator(const Shape& shape);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& labels);

  Shape shape;
  std::vector<std::shared_ptr<NetworkStage>> stages;  // the picture's resolution first
  std::shared_ptr<Convolution> from_image;            // "ExtractionLayer"
  std::shared_ptr<Weight> embedding;                  // "EmbeddingLayer"; null without classes
};

// Draws the initial weights, each tensor from a stream of its own: N(0, gain^2 / fan_in), with the
// last convolution of each block 0 and the others scaled down with the number of blocks (Zhang et
// al. 2019, Fixup), as sec. 3 asks for in place of normalisation.
void initialise(Generator& network, const std::string& player, uint64_t seed);
void initialise(Discriminator& network, const std::string& player, uint64_t seed);

}  // namespace gantrain::r3gan
