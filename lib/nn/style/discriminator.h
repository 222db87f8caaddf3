// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "nn/style/layers.h"
#include "nn/style/shape.h"

namespace gantrain {

// The block of one nominal resolution above 4, which halves the resolution (Karras et al. 2020a,
// fig. 7).
struct StyleDiscriminatorBlock final : torch::nn::Module {
  // first_layer: how many convolutions stand before this block; those below shape.freeze_layers
  // are frozen (Mo et al. 2020), counted as fromrgb, conv0, conv1, skip from the image on.
  StyleDiscriminatorBlock(const StyleDiscriminatorShape& shape,
                          int64_t resolution,
                          int64_t first_layer);
  Canvas forward(const Canvas& in);

  std::string name;    // "b16"
  int64_t layers = 0;  // convolutions in this block
  bool half, keeps_image;
  at::Tensor resample_filter;
  std::shared_ptr<ResamplingConv2d> fromrgb, conv0, conv1, skip;
};

// The last block, at the start size (4x4): minibatch standard deviation, convolution, two dense
// layers. It always computes in the parameters' type.
struct StyleDiscriminatorEpilogue final : torch::nn::Module {
  explicit StyleDiscriminatorEpilogue(const StyleDiscriminatorShape& shape);
  // Returns [N, 1], or [N, cmap_dim] where there are classes.
  at::Tensor forward(const Canvas& in);

  int64_t group, group_channels;
  std::shared_ptr<ResamplingConv2d> fromrgb, conv;
  std::shared_ptr<FullyConnected> fc, out;
};

// The discriminator of StyleGAN2 and of StyleGAN3.
// img [N, C, H, W] -> logits [N, 1]; labels int64 [N], not looked at without classes. With classes
// the logit is the projection onto the embedded class (Miyato & Koyama 2018). Samples of a call
// normalise each other in groups of mbstd_group_size (ops/norms/norms.h): pass micro-batches that
// are multiples of it.
struct StyleDiscriminator final : torch::nn::Module {
  explicit StyleDiscriminator(const StyleDiscriminatorShape& shape);
  at::Tensor forward(const at::Tensor& img, const at::Tensor& labels = {});
  // The convolutions that shape.freeze_layers counts, from the image on: "b16.fromrgb", ...
  std::vector<std::string> layer_names() const;

  StyleDiscriminatorShape shape;
  std::vector<std::shared_ptr<StyleDiscriminatorBlock>> blocks;
  std::shared_ptr<StyleMapping> mapping;
  std::shared_ptr<StyleDiscriminatorEpilogue> b4;
};

}  // namespace gantrain
