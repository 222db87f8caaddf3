// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"
#include "nn/modules.h"
#include "ops/losses.h"
#include "recipes/r3gan/options.h"

namespace gantrain::r3gan {

// The sizes that a generator and its discriminator share. D, which begins with the image, goes
// through the stages backwards.
struct Shape : StageSizes {
  Size img_resolution = {256, 256};  // a start times a power of two (util/size.h)
  int64_t img_channels = 3;
  int64_t z_dim = 64;
  int64_t c_dim = 0;       // classes; 0: unconditional
  int64_t embedding = 64;  // of the class in G; in D as wide as the start
  int64_t expansion = 2;
  std::vector<int64_t> half_stages = {};  // numbers of the stages that compute in bfloat16

  int64_t stages() const { return static_cast<int64_t>(widths.size()); }
  bool half(int64_t stage) const;
};

// Returns the "gantrain.model" of a model file: {"recipe": "r3gan", the reference constructor's
// arguments}.
Json to_json(const Shape& shape);

// Reads the sizes off a generator's tensors; all of them show there. Throws UserError(kInput) that
// names `source` and the tensor that is missing or does not fit, or the member of `model`, which
// may be empty, that says something else.
Shape generator_shape(const Json& model, const TensorMap& tensors, const std::string& source);

// The tensors of stage 2 are called "Model.MainLayers.2.", which is stage_name(2), and the rest:
// "Layers.1.LinearLayer1.Layer.weight". Of other tensors the stage is -1, and all is rest.
struct StageTensor {
  int64_t stage = -1;
  std::string rest;
};
StageTensor stage_tensor(const std::string& name);
std::string stage_name(int64_t stage);

// Returns how many stages the network has whose tensors' names begin with `prefix`.
int64_t stages_of(const TensorMap& tensors, const std::string& prefix);

// The layers of Huang et al. 2024, sec. 3 and fig. 4. None of them has a bias or a normalisation;
// modules and tensors have the reference's names.

// x [N, in, H, W] -> [N, out, H, W]: kernel 1 or 3, padded to keep the size, in `groups` parts.
struct Convolution final : torch::nn::Module {
  struct Config {
    int64_t in = 1, out = 1, kernel = 1, groups = 1;
  };
  explicit Convolution(const Config& config);
  at::Tensor forward(const at::Tensor& x);

  Config config;
  std::shared_ptr<Weight> layer;  // "Layer"
};

// Leaky ReLU of x + Bias, slope .2, without a gain.
struct BiasedActivation final : torch::nn::Module {
  explicit BiasedActivation(int64_t channels);
  at::Tensor forward(const at::Tensor& x);

  at::Tensor bias;  // "Bias"
};

// x + L3(act(L2(act(L1 x)))): an inverted bottleneck around a grouped 3x3 convolution (sec. 3,
// config E).
struct ResidualBlock final : torch::nn::Module {
  struct Config {
    int64_t width = 1, cardinality = 1, expansion = 2;
  };
  explicit ResidualBlock(const Config& config);
  at::Tensor forward(const at::Tensor& x);

  std::shared_ptr<Convolution> linear1, linear2, linear3;  // "LinearLayer1" to "LinearLayer3"
  std::shared_ptr<BiasedActivation> act1, act2;            // "NonLinearity1", "NonLinearity2"
};

enum class Change { kTwiceAsLarge, kHalfAsLarge };

// Between two stages: resampling with [1, 3, 3, 1], and a 1x1 convolution where widths differ: G
// convolves before it doubles the size, D after it has halved it.
struct Transition final : torch::nn::Module {
  Transition(int64_t in, int64_t out, Change change);
  at::Tensor forward(const at::Tensor& x);

  Change change;
  at::Tensor kernel;                    // "Resampler.Kernel"
  std::shared_ptr<Convolution> linear;  // "LinearLayer"; null where widths are the same
};

// x [N, in] -> [N, out, h, w], G's start: learned pictures times a linear function of x, one of
// each for a feature map.
struct GenerativeBasis final : torch::nn::Module {
  GenerativeBasis(int64_t in, int64_t out, const Size& size);
  at::Tensor forward(const at::Tensor& x);

  at::Tensor basis;                // "Basis"
  std::shared_ptr<Weight> linear;  // "LinearLayer"
};

// x [N, in, h, w] -> [N, out], D's end: a depth-wise convolution that leaves one pixel, and a
// linear function of it.
struct DiscriminativeBasis final : torch::nn::Module {
  DiscriminativeBasis(int64_t in, int64_t out, const Size& size);
  at::Tensor forward(const at::Tensor& x);

  std::shared_ptr<Weight> basis, linear;  // "Basis", "LinearLayer"
};

// The layers of one resolution: in G a basis or a transition and then blocks; in D blocks and then
// a transition or a basis. Exactly one of `start`, `transition` and `end` is set.
struct NetworkStage final : torch::nn::Module {
  NetworkStage(int64_t number, bool half);

  std::string name;                     // "Model.MainLayers.0"
  bool half;                            // computes in bfloat16
  std::shared_ptr<ModuleGroup> layers;  // "Layers": all that follow
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

// The losses of Huang et al. 2024, sec. 2: the relativistic pairing GAN (Jolicoeur-Martineau 2019)
// with both zero-centred gradient penalties. The i-th real picture is paired with the i-th
// generated one.
struct Pair {
  at::Tensor real, fake;  // [N, C, H, W]
};

// D as its two calls see it. Penalties are gradients by what these functions are given, so that an
// augmentation may be part of them.
struct PairedD {
  Discriminate real, fake;
};

// One number for each pair, [N], beside the mean loss; penalties are undefined where there are
// none.
struct Pairing {
  at::Tensor loss;
  at::Tensor real_scores, fake_scores;
  at::Tensor r1_penalty, r2_penalty;  // |grad D|^2 at the real picture, at the generated one
};

// E[softplus(D(G(z)) - D(x))], which is eq. 2 negated as D maximises it, and with a gamma the
// penalties of eq. 3. fake is given without a graph.
Pairing pairing_d(const PairedD& D, const Pair& pair, const DeviceNumber* gamma);

// R1 and R2 alone, gamma/2 E[|grad D|^2] at real and at generated pictures: eq. 3.
Pairing penalties_d(const PairedD& D, const Pair& pair, const DeviceNumber& gamma);

// E[softplus(D(x) - D(G(z)))]: G's side of eq. 2, without its saturation. The scores of real
// pictures are constants.
Pairing pairing_g(const PairedD& D, const Pair& pair);

// The row of R3GAN (Huang et al. 2024) for the table of recipes. An iteration has the phases D and
// G; where the penalties are lazy (r3gan.penalty_interval), Dreg between them.
RecipeRow row();

}  // namespace gantrain::r3gan
