// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "gan/recipe.h"
#include "nn/lite0.h"
#include "nn/modules.h"
#include "nn/normalisation.h"
#include "nn/script_features.h"
#include "nn/style/layers.h"
#include "recipes/projected/options.h"

namespace gantrain::projected {

// Sizes of a FastGAN generator, by the names of the official constructor's arguments.
struct Shape {
  int64_t z_dim = 256;
  int64_t c_dim = 0;             // classes; 0: unconditional
  int64_t num_classes = 0;       // rows of the table of classes, at least c_dim
  int64_t img_resolution = 256;  // 8 to 1024, a power of two
  int64_t img_channels = 3;
  int64_t ngf = 128;
  bool lite = false;

  // Feature maps at r = 4, 8, ... 1024 pixels.
  int64_t width(int64_t r) const;
  // The resolutions r whose block feat_r there is: from 128 pixels on the official class makes all
  // up to 256, used or not.
  std::vector<int64_t> blocks() const;
};

// Returns the "gantrain.model" of a model file: {"recipe": "projected", the official constructor's
// arguments}.
Json to_json(const Shape& shape);

// Reads the sizes off a generator's tensors, and the rest from `model`, which may be empty. Throws
// UserError(kInput) that names `source` and the tensor that is missing or does not fit, or the
// member of `model` that says something else.
Shape generator_shape(const Json& model, const TensorMap& tensors, const std::string& source);

// Batch norm whose gain and bias are linear functions of the embedded class y [N, features] (de
// Vries et al. 2017): (1 + gain(y)) * normalised x + bias(y).
struct ConditionalBatchNorm final : torch::nn::Module, HasRunningStatistics, SharesBatchStatistics {
  ConditionalBatchNorm(int64_t channels, int64_t features, std::string block);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& y);
  std::vector<std::string> running_statistics() const override {
    return {"stored_mean", "stored_var"};
  }

  std::string block;
  std::shared_ptr<SpectralWeight> gain, bias;
  at::Tensor stored_mean, stored_var;
};

// Hands out the noise of a network's layers one after the other; null: there is none.
struct NoiseTaken {
  const NoiseInputs& inputs;
  int64_t next = 0;
};

// The layers of one resolution (Liu et al. 2021, fig. 4; what the official code of projected GANs
// made of it): x [N, width(r/2), r/2, r/2] -> [N, width(r), r, r], enlarged, then twice, or once in
// the lite network: convolution, noise (not in the lite network), batch norm, gated linear unit.
struct FeatureBlock final : torch::nn::Module {
  FeatureBlock(const Shape& shape, int64_t r);
  // `y`: embedded classes, undefined without classes.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& y, NoiseTaken& noise);

  std::string name;  // "synthesis.feat_8"
  std::vector<std::shared_ptr<SpectralWeight>> convolutions;
  std::vector<std::shared_ptr<Weight>> noises;  // one for both places where there are classes
  std::vector<std::shared_ptr<BatchNorm2d>> norms;
  std::vector<std::shared_ptr<ConditionalBatchNorm>> conditional_norms;
};

// Skip-layer excitation (Liu et al. 2021, sec. 3.1): scales each feature map of `large` by a
// function of the map `small` of a sixteenth of its size.
struct SkipExcitation final : torch::nn::Module {
  SkipExcitation(int64_t in, int64_t out, std::string block);
  at::Tensor forward(const at::Tensor& small, const at::Tensor& large);

  std::string block;
  std::shared_ptr<SpectralWeight> first, second;  // "main.1", "main.3"
};

// z [N, z_dim] and labels, int64 [N] or undefined, -> pictures [N, C, R, R], about in [-1, 1],
// without a function that bounds them. z is normalised first. `noise` is asked for layers 0, 1, ...
// in the order in which they are computed.
struct Generator final : torch::nn::Module {
  explicit Generator(const Shape& shape);
  at::Tensor forward(const at::Tensor& z, const at::Tensor& labels, const NoiseInputs& noise);
  // The same, telling each module's output by its official name: "init", "feat_8", "se_64".
  using Seen = std::function<void(const std::string& module, const at::Tensor& output)>;
  at::Tensor forward(const at::Tensor& z,
                     const at::Tensor& labels,
                     const NoiseInputs& noise,
                     const Seen& seen);
  // Whether pictures depend on the parameter of that name.
  bool uses(const std::string& parameter) const;

  Shape shape;
  std::shared_ptr<SpectralWeight> start;  // "synthesis.init.init.0"
  std::shared_ptr<BatchNorm2d> start_norm;
  std::map<int64_t, std::shared_ptr<FeatureBlock>> blocks;         // by resolution
  std::map<int64_t, std::shared_ptr<SkipExcitation>> excitations;  // by that of the large map
  std::shared_ptr<SpectralWeight> to_image;                        // "synthesis.to_big"
  std::shared_ptr<Weight> embedding;  // "synthesis.embed"; null without classes
};

// Sizes of D.
struct DiscriminatorShape {
  Lite0Shape features;
  std::shared_ptr<ScriptFeatures> script =
      nullptr;  // a user's network instead of them; may be null
  int64_t cout = 64;
  std::optional<int64_t> ndf;  // feature maps inside the heads
  bool separable = false;
  int64_t c_dim = 0;
  int64_t embedding = 128;
  int64_t cmap_dim = 64;
  int64_t input = 224;  // smaller pictures are enlarged to it
};

// The frozen feature network and its random projections (Sauer et al. 2021, sec. 3.2): four maps,
// each mixed across channels and, from the coarsest on, with the next coarser one. All tensors are
// buffers, so that nothing trains them and every state holds them.
struct ProjectedFeatures final : torch::nn::Module {
  explicit ProjectedFeatures(const DiscriminatorShape& shape);
  // Pictures [N, 3, H, W] with sides that are multiples of 32 -> maps of half, a quarter, an
  // eighth and a sixteenth of their size, the finest first.
  std::array<at::Tensor, 4> forward(const at::Tensor& x);
  // What the two mixings make of a feature network's maps; `mixed`, where it is not null, gets the
  // result of the first.
  std::array<at::Tensor, 4> mixed(const std::array<at::Tensor, 4>& maps,
                                  std::array<at::Tensor, 4>* mixed_channels = nullptr);
  // Feature maps of the results.
  static std::array<int64_t, 4> widths(int64_t cout);
  // Draws the projections with torch's default bounds, and random features.
  void initialise(uint64_t seed, const std::string& name);

  // One of both, "pretrained"; the other is null.
  std::shared_ptr<Lite0> pretrained;
  std::shared_ptr<ScriptFeatures> script;

 private:
  struct Projection {
    at::Tensor weight, bias;
  };
  std::array<Projection, 4> across_channels_, across_scales_;
};

// A discriminator of one map (Sauer et al. 2021, app.): blocks that halve it, then one number for
// each position.
struct Head final : torch::nn::Module {
  // Of map i, 0 being the finest. `name` is the head's: "discriminator.mini_discs.0".
  Head(const DiscriminatorShape& shape, int64_t i, std::string name);
  // x [N, C, h, w] -> logits [N, positions].
  at::Tensor forward(const at::Tensor& x, const at::Tensor& labels);

  struct Block {
    std::vector<std::shared_ptr<SpectralWeight>> convolutions;  // two where they are separable
    std::shared_ptr<BatchNorm2d> norm;
  };
  std::string name;
  std::vector<Block> blocks;
  std::shared_ptr<SpectralWeight> last;
  std::shared_ptr<Weight> embedding;  // null without classes, as are the next two
  at::Tensor class_weight, class_bias;

 private:
  void add_block(ModuleGroup& main, int64_t number, int64_t in, int64_t out, bool separable);
  at::Tensor class_maps(const at::Tensor& labels) const;
};

// Pictures x [N, C, H, W] of 1 or 3 channels in [-1, 1] and labels -> the logits of all heads, [N,
// L]. Sides smaller than shape.input are enlarged to it, bilinearly.
struct Discriminator final : torch::nn::Module {
  explicit Discriminator(const DiscriminatorShape& shape);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& labels);

  DiscriminatorShape shape;
  std::shared_ptr<ProjectedFeatures> features;  // "feature_network"
  std::vector<std::shared_ptr<Head>> heads;
};

// Draws the initial weights with torch's default bounds, each tensor from a stream of its own; of D
// the features too, which a file may replace.
void initialise(Generator& network, const std::string& player, uint64_t seed);
void initialise(Discriminator& network, const std::string& player, uint64_t seed);

// Blurs pictures with a Gaussian of that deviation in pixels, whose taps reach floor(3 sigma)
// pixels and are 2^-((j / sigma)^2); zeros outside. A sigma that moves has at most 3 * `most` taps
// to each side.
at::Tensor blurred(const at::Tensor& x, const DeviceNumber& sigma, double most);
// The deviation after so many images: it goes to 0 linearly.
double blur_sigma(const Options& options, int64_t images_seen);

// The row of projected GANs (Sauer et al. 2021) for the table of recipes. An iteration has the
// phases G and D, in this order.
RecipeRow row();

}  // namespace gantrain::projected
