// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/model_json.h"
#include "gan/recipe.h"
#include "nn/modules.h"
#include "nn/progressive.h"
#include "nn/style/layers.h"
#include "ops/losses.h"
#include "recipes/stylegan1/options.h"

namespace gantrain::stylegan1 {

// Sizes of one network. As JSON they are "gantrain.model".
struct Shape {
  int64_t resolution = 1024;
  int64_t num_channels = 3;
  int64_t label_size = 0;  // classes; 0: unconditional
  NetworkOptions net;

  FeatureMaps maps() const { return {net.fmap_base, net.fmap_decay, net.fmap_max}; }
};

template <class Field>
void fields(Shape& s, Field&& field) {
  field("resolution", s.resolution, power_of_two(4, 1024), "pixels");
  field("num_channels", s.num_channels, between(1, 16), "of the pictures");
  field("label_size", s.label_size, between(0, 1e6), "classes");
  fields(s.net, field);
}

// The mapping network: z [N, latent_size] -> w [N, dlatent_size] (Karras et al. 2019, fig. 1b).
// Each class has a vector of length latent_size; it is concatenated with z before both are
// normalised. Undefined labels stand for no class: the vector is then zero.
struct Mapping final : torch::nn::Module {
  explicit Mapping(const Shape& shape);
  at::Tensor forward(const at::Tensor& z, const at::Tensor& labels = {});

  std::vector<std::shared_ptr<Equalised>> layers;
  std::shared_ptr<Weight> classes;  // [label_size, latent_size]; null without labels
};

// The layer that follows a convolution or the learned constant: noise, bias, leaky ReLU, AdaIN
// (Karras et al. 2019, fig. 1b). It also holds the convolution's weight.
struct StyledLayer final : torch::nn::Module {
  struct Size {
    int64_t in, out, w_dim;  // in = 0: the constant [1, out, 4, 4]
  };
  explicit StyledLayer(const Size& size);
  // The weight to convolve x with, and the factor that the result is still to be multiplied by.
  struct Kernel {
    at::Tensor weight;
    double factor;
  };
  Kernel kernel(const at::Tensor& x) const;
  // Applies the factor, noise, bias, leaky ReLU and AdaIN to x. w is [N, w_dim]; noise is [h, h],
  // [1, 1, h, h] or [N, 1, h, h], or undefined.
  at::Tensor finish(const at::Tensor& x,
                    double factor,
                    const at::Tensor& w,
                    const at::Tensor& noise) const;

  at::Tensor weight, constant, bias;  // either weight or constant is defined
  double scale = 1;
  std::shared_ptr<Weight> noise_weight;  // [out]
  std::shared_ptr<Equalised> style;      // w -> [N, 2 out]: scale - 1, then shift
};

// The synthesis network: latents of the layers [N, num_ws, w_dim] -> pictures [N, C, r, r] of a
// level. A level uses only the latents of its own layers.
struct Synthesis final : torch::nn::Module {
  explicit Synthesis(const Shape& shape);
  at::Tensor forward(const at::Tensor& ws, const StageLevel& level, const NoiseInputs& noise = {});

  int64_t resolution;
  std::vector<std::shared_ptr<StyledLayer>> layers;  // two for each level
  std::vector<std::shared_ptr<Equalised>> rgb;       // one for each level
  std::vector<at::Tensor>
      noise_maps;  // stored noise of each layer, [1, 1, h, h]: buffers "noise0", ...
};

// Mapping and synthesis together. Names are the official ones with dots: "mapping.Dense0.weight",
// "synthesis.4x4.Const.const", "synthesis.16x16.Conv0_up.StyleMod.bias",
// "synthesis.ToRGB_lod0.weight", and the buffers "synthesis.noise3" and "dlatent_avg". Layouts are
// torch's; an up-sampling convolution is stored as the convolution that follows nearest_up.
// import_official() converts the official layouts.
struct Generator final : torch::nn::Module {
  explicit Generator(const Shape& shape);
  // Makes pictures [N, C, r, r] of z [N, latent_size], with the same w for all layers.
  at::Tensor forward(const at::Tensor& z,
                     const at::Tensor& labels,
                     const StageLevel& level,
                     const NoiseInputs& noise = {});
  bool active(const std::string& parameter, int64_t pixels, bool fading) const;
  int64_t num_ws() const { return static_cast<int64_t>(synthesis->layers.size()); }

  Shape shape;
  std::shared_ptr<Mapping> mapping;
  std::shared_ptr<Synthesis> synthesis;
  at::Tensor dlatent_avg;  // [w_dim]: running average of w, which training updates
};

// Returns the sizes of the discriminator: [N, C, r, r] and labels -> scores [N].
DiscriminatorShape discriminator_shape(const Shape& shape);

// Initialises the network as Karras et al. 2019, app. C: weights ~ N(0, 1), the constant 1, biases
// and noise weights 0; the stored noise is N(0, 1). All of it depends on the seed alone.
void initialise(Generator& network, const std::string& player, uint64_t seed);

// Returns the sizes of the generator that these tensors belong to: what `model` says, and what it
// leaves to the tensors. These do not show mapping_lrmul, which then gets its default. Throws
// UserError(kInput) that names `source` and the tensor or the member of `model` that does not fit.
Shape generator_shape(const Json& model, const TensorMap& tensors, const std::string& source);

// Present values of the options r1_gamma, r2_gamma and gp_weight.
struct PenaltyWeights {
  DeviceNumber r1, r2, gp;
};

// Returns D's loss with its penalties at the level of r pixels of a network of `resolution`. real
// and fake are [N, C, r, r], fake detached. Only wgan-gp needs t, [N, 1, 1, 1] in [0, 1).
DiscriminatorLoss d_loss(const Discriminate& D,
                         const at::Tensor& real,
                         const at::Tensor& fake,
                         const at::Tensor& t,
                         const PenaltyWeights& weights,
                         const LossOptions& options,
                         int64_t resolution);

// Returns G's loss, which options.kind names.
at::Tensor g_loss(const at::Tensor& fake_scores, const LossOptions& options);

// Returns the "gantrain.model" of a generator.
Json model_of(const Shape& shape);

// Returns the function that gives the layout of an official variable, for example
// "16x16/Conv0_up/weight". `fused_scale` is the synthesis network's argument; none stands for
// "auto", which means on from 128 pixels. Where it is on, up-sampling kernels are stored mirrored.
LayoutOf layouts(std::optional<bool> fused_scale);

// Imports the official variables "G_mapping/...", "G_synthesis/...", "G/dlatent_avg" and, where
// present, "D/...", with their TensorFlow layouts. The sizes come from the header's "config" (the
// official constructors' arguments); without it they are read off the tensors. Throws
// UserError(kInput) that names `source` and the variable that is missing, unknown or of another
// shape.
ModelContent import_official(const TensorFile& file, const std::string& source);

// This recipe's row for the table of recipes.
RecipeRow row();

}  // namespace gantrain::stylegan1
