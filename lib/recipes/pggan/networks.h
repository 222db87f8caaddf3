// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/progressive.h"
#include "recipes/pggan/options.h"

namespace gantrain::pggan {

// Sizes of one network. As JSON they are "gantrain.model".
struct Shape {
  int64_t resolution = 1024;
  int64_t num_channels = 3;
  NetworkOptions net;

  FeatureMaps maps() const { return {net.fmap_base, net.fmap_decay, net.fmap_max}; }
};

template <class Field>
void fields(Shape& s, Field&& field) {
  field("resolution", s.resolution, power_of_two(4, 1024), "pixels");
  field("num_channels", s.num_channels, between(1, 4), "of the pictures");
  fields(s.net, field);
}

// The growing generator: z [N, latent_size] -> pictures [N, C, r, r] of a level (Karras et al.
// 2018a, fig. 2, table 2).
//
// Names are the official ones with dots: "4x4.Dense.weight", "16x16.Conv0_up.bias" ("Conv0" where
// fused_scale is off), "16x16.Conv1.weight", "ToRGB_lod0.weight". Layouts are torch's: [out, in],
// [O, I, k, k]; an up-sampling convolution is stored as the convolution that follows nearest_up.
// recipe.h converts the official layouts.
struct Generator final : torch::nn::Module {
  explicit Generator(const Shape& shape);
  at::Tensor forward(const at::Tensor& z, const StageLevel& level);
  // Whether a parameter takes part at a level.
  bool active(const std::string& parameter, int64_t pixels, bool fading) const;

  Shape shape;

 private:
  struct Block final : torch::nn::Module {
    std::shared_ptr<Equalised> first, second;
  };
  std::vector<std::shared_ptr<Block>> blocks_;   // index: doublings(pixels)
  std::vector<std::shared_ptr<Equalised>> rgb_;  // in the same order
};

// Returns the sizes of the discriminator, [N, C, r, r] -> scores [N].
DiscriminatorShape discriminator_shape(const Shape& shape);

// Returns the sizes of the generator that these tensors belong to. Where the tensors allow several
// widths, it returns the narrowest: fmap_base shows only where a layer is narrower than fmap_max.
// Throws UserError(kInput) that names `source` and the tensor that does not fit.
Shape generator_shape(const std::map<std::string, at::Tensor>& tensors, const std::string& source);

}  // namespace gantrain::pggan
