// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"
#include "nn/normalisation.h"
#include "recipes/dcgan/options.h"

namespace gantrain::dcgan {

// Sizes of one network.
struct Shape {
  Size resolution = {64, 64};  // a start times a power of two (util/size.h)
  int64_t image_channels = 3;
  int64_t latent = 100;  // generator only
  int64_t channels =
      1024;  // generator: feature maps at the start; discriminator: after the first layer
  Norm norm = Norm::kBatch;
};

// The weight and bias of a convolution. It has a bias where no normalisation follows; otherwise
// `bias` is undefined.
struct Convolution final : torch::nn::Module {
  Convolution(std::string block, std::vector<int64_t> weight_shape, int64_t bias_size);
  std::string block;  // its name in the network: "main.0"
  at::Tensor weight, bias;
};

// z [N, latent] -> [N, C, H, W] in [-1, 1]: fractionally-strided convolutions with kernel 4, batch
// norm and ReLU, with tanh at the end (Radford et al. 2016, sec. 3, fig. 1). The first kernel has
// the start's size: it makes the start, 4x4 for squares, from one pixel. Names are those of
// pytorch/examples: "main.0.weight".
struct Generator final : torch::nn::Module {
  explicit Generator(const Shape& shape);
  at::Tensor forward(const at::Tensor& z);

  Shape shape;
  std::vector<std::shared_ptr<Convolution>> convolutions;
  std::vector<std::shared_ptr<BatchNorm2d>> norms;  // null where norm=none
};

// x [N, C, H, W] -> logits [N]: strided convolutions with kernel 4, batch norm except in the first
// layer, leaky ReLU of negative slope .2 (Radford et al. 2016, sec. 3). The last kernel has the
// start's size.
struct Discriminator final : torch::nn::Module {
  explicit Discriminator(const Shape& shape);
  at::Tensor forward(const at::Tensor& x);

  Shape shape;
  std::vector<std::shared_ptr<Convolution>> convolutions;
  std::vector<std::shared_ptr<BatchNorm2d>> norms;
};

// Draws the initial weights from N(0, .02) (Radford et al. 2016, sec. 4) and batch norm's scales
// from N(1, .02) as pytorch/examples does; biases are 0. Each tensor has a stream of its own, so
// the weights depend on the seed alone.
void initialise(torch::nn::Module& network, const std::string& player, uint64_t seed);

// Returns the sizes of the generator that these tensors belong to; they show all of them. Throws
// UserError(kInput) that names `source` and the tensor that does not fit.
Shape generator_shape(const Json&, const TensorMap& tensors, const std::string& source);

// The row of DCGAN (Radford et al. 2016) for the table of recipes, with the losses of Goodfellow
// 2014, Mao 2017 or Gulrajani 2017.
RecipeRow row();

}  // namespace gantrain::dcgan
