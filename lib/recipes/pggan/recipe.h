// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/model_json.h"
#include "gan/recipe.h"
#include "nn/progressive.h"
#include "ops/losses.h"
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
  field("num_channels", s.num_channels, between(1, 16), "of the pictures");
  fields(s.net, field);
}

// The growing generator: z [N, latent_size] -> pictures [N, C, r, r] of a level (Karras et al.
// 2018a, fig. 2, table 2).
//
// Names are the official ones with dots: "4x4.Dense.weight", "16x16.Conv0_up.bias" ("Conv0" where
// fused_scale is off), "16x16.Conv1.weight", "ToRGB_lod0.weight". Layouts are torch's: [out, in],
// [O, I, k, k]; an up-sampling convolution is stored as the convolution that follows nearest_up.
// import_official() converts the official layouts.
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

// Returns the sizes of the generator that these tensors belong to: what `model` says, and what it
// leaves to the tensors. Where these allow several widths, it returns the narrowest: fmap_base
// shows only where a layer is narrower than fmap_max. Throws UserError(kInput) that names `source`
// and the tensor or the member of `model` that does not fit.
Shape generator_shape(const Json& model, const TensorMap& tensors, const std::string& source);

// Returns D's loss, WGAN-GP with drift (Karras et al. 2018a, app. A.1), at the level of r pixels of
// a network of `resolution`. real and fake are [N, C, r, r], fake detached. t [N, 1, 1, 1] in [0,
// 1) says where between real and fake the gradient is taken. gp_weight is the present value of
// options.gp_weight.
DiscriminatorLoss d_loss(const Discriminate& D,
                         const at::Tensor& real,
                         const at::Tensor& fake,
                         const at::Tensor& t,
                         const DeviceNumber& gp_weight,
                         const LossOptions& options,
                         int64_t resolution);

// Returns the "gantrain.model" of a generator.
Json model_of(const Shape& shape);

// Returns the layout of an official variable, for example "16x16/Conv0_up/weight".
TfLayout layout_of(const std::string& variable, const at::Tensor& value);

// Imports the official variables "G/..." and, where present, "D/...", with their TensorFlow
// layouts. The sizes come from the header's "config" (the official constructors' arguments);
// without it they are read off the tensors. Throws UserError(kInput) that names `source` and the
// variable that is missing, unknown or of another shape.
ModelContent import_official(const TensorFile& file, const std::string& source);

// This recipe's row for the table of recipes.
RecipeRow row();

}  // namespace gantrain::pggan
