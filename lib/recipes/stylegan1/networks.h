// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/progressive.h"
#include "nn/style/layers.h"
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
  field("num_channels", s.num_channels, between(1, 4), "of the pictures");
  field("label_size", s.label_size, between(0, 1e6), "classes");
  fields(s.net, field);
}

// A single parameter in a module of its own, for names such as "Noise.weight" and
// "LabelConcat.weight".
struct Weight final : torch::nn::Module {
  explicit Weight(const std::vector<int64_t>& size);
  at::Tensor weight;
};

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
// recipe.h converts the official layouts.
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

// Returns the sizes of the generator that these tensors belong to. The tensors do not show
// mapping_lrmul, which gets its default. Throws UserError(kInput) that names `source` and the
// tensor that does not fit.
Shape generator_shape(const std::map<std::string, at::Tensor>& tensors, const std::string& source);

}  // namespace gantrain::stylegan1
