// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/style/shape.h"
#include "ops/bias_act/bias_act.h"
#include "ops/convolution/convolution.h"
#include "ops/draws/draws.h"
#include "ops/modulation/modulation.h"
#include "util/size.h"

namespace gantrain {

// The noise inputs of a synthesis network (Karras et al. 2019, sec. 3.2). Called with a layer and
// the size of its pictures, the function returns the noise that the layer adds, before the layer
// multiplies it by its own strength: N(0, 1), on any device, [N, 1, H, W], or [1, 1, H, W] or
// [H, W] for all samples; undefined where nothing is to be added. Layers with noise are counted
// from 0 in the first block, and the count is also the index of their w. An empty function stands
// for the noise that is part of the model.
using NoiseInputs = std::function<at::Tensor(int64_t layer, const Size& size)>;

// The constant noise that each layer has stored as a buffer.
NoiseInputs stored_noise();
// No layer adds anything.
NoiseInputs no_noise();
// N(0, 1) for each sample of a batch, in the type and on the device of `like`. A layer's noise
// depends on the key, the layer and the global sample alone.
NoiseInputs drawn_noise(const DrawKey& key, const Samples& samples, const at::TensorOptions& like);

// What goes from block to block: feature maps [N, C, h, w] in the block's type, and the picture
// [N, img_channels, h, w] in the parameters' type; either may be undefined.
struct Canvas {
  at::Tensor x, img;
};

// The features or the picture x in the type that a block computes in: float16 where `half` says
// that it is one of the half-precision blocks of a float32 network, else the type of its
// parameters. Where autocast chooses, x is returned as it is. On a GPU maps that leave float16
// become planes, which its float32 convolutions read.
at::Tensor in_block_type(const at::Tensor& x, bool half, const at::Tensor& parameter);
// The type of its result for an x of `type`.
at::ScalarType block_type(at::ScalarType type, bool half, const at::Tensor& parameter);

// act(x W^T lr_multiplier / sqrt(in) + b lr_multiplier): a dense layer with equalised learning
// rate (Karras et al. 2018a, sec. 4.1), in the parameters' type even under autocast.
// x [N, in] -> [N, out].
struct FullyConnected final : torch::nn::Module {
  struct Config {
    int64_t in, out;
    Activation act = Activation::kLinear;
    double lr_multiplier = 1;
    double bias = 0;  // its initial value
  };
  explicit FullyConnected(const Config& config);
  at::Tensor forward(const at::Tensor& x);

  Config config;
  at::Tensor weight, bias;
};

// Convolution with equalised learning rate, resampling, activation and clamp; gain multiplies the
// output and the clamp. Where not trainable, weight and bias are buffers of the same names.
struct ResamplingConv2d final : torch::nn::Module {
  struct Config {
    int64_t in, out, kernel;
    bool bias = true;
    Activation act = Activation::kLinear;
    int64_t up = 1, down = 1;
    std::optional<double> clamp;
    bool trainable = true;
  };
  explicit ResamplingConv2d(const Config& config);
  // Plus `added`, where it is defined.
  at::Tensor forward(const at::Tensor& x, double gain = 1, const at::Tensor& added = {});
  // x for others to use, and forward(x, gain): where a filter comes first, the two gradients of x
  // may be added in its pass (ops/upfirdn2d/upfirdn2d.h).
  struct Beside {
    at::Tensor x, result;
  };
  Beside forward_beside(const at::Tensor& x, double gain);

  Config config;
  at::Tensor weight, bias, resample_filter;

 private:
  at::Tensor convolved(const at::Tensor& x,
                       const ConvResample& how,
                       double gain,
                       const at::Tensor& added = {});
};

// 3x3 convolution modulated by w, noise, bias, leaky ReLU (Karras et al. 2020a, fig. 2c).
// x [N, in, H, W], w [N, w_dim] -> [N, out, H up, W up].
struct ModulatedLayer final : torch::nn::Module {
  struct Config {
    int64_t in, out, w_dim;
    Size resolution;  // of the output
    int64_t layer;    // its number, for NoiseInputs
    int64_t up = 1;
    std::optional<double> clamp;
  };
  explicit ModulatedLayer(const Config& config);
  at::Tensor forward(const at::Tensor& x,
                     const at::Tensor& w,
                     const NoiseInputs& noise,
                     bool fused,
                     double gain = 1);
  // The same between other layers (ops/modulation/modulation.h). in.styles are affine(w).
  StyledMaps forward(const StyledMaps& in,
                     const NoiseInputs& noise,
                     bool fused,
                     double gain,
                     const NextConv& next);

  Config config;
  at::Tensor weight, noise_strength, bias, resample_filter, noise_const;
  std::shared_ptr<FullyConnected> affine;  // w -> styles, bias 1
};

// 1x1 convolution modulated by w, without demodulation: x [N, in, H, W] -> [N, channels, H, W].
struct ModulatedToRgb final : torch::nn::Module {
  struct Config {
    int64_t in, channels, w_dim;
    std::optional<double> clamp;
  };
  explicit ModulatedToRgb(const Config& config);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& w, bool fused);

  Config config;
  at::Tensor weight, bias;
  std::shared_ptr<FullyConnected> affine;
};

// Draws the weights, constants and constant noise of a fresh network made of these layers, each
// tensor whose name ends in "weight" or "const" from a stream of its own, so that they depend on
// the seed alone: N(0, 1), divided by a dense layer's lr_multiplier. Biases (0; styles' 1), noise
// strengths (0) and w_avg (0) are what the constructors made them.
void initialise_style_layers(torch::nn::Module& network, const std::string& player, uint64_t seed);

// z [N, z_dim], labels int64 [N] or vectors [N, c_dim] -> w [N, w_dim] (Karras et al. 2019, fig.
// 1b): both normalised, the class embedded, then dense layers with leaky ReLU. z is not looked at
// where z_dim is 0, labels not where c_dim is 0.
struct StyleMapping final : torch::nn::Module {
  explicit StyleMapping(const MappingShape& shape);
  at::Tensor forward(const at::Tensor& z, const at::Tensor& labels);

  MappingShape shape;
  // Running mean of w [w_dim], undefined without shape.has_w_avg. forward() never moves it, because
  // what counts is the mean over all ranks and micro-batches: move_w_average_().
  at::Tensor w_avg;
  std::shared_ptr<FullyConnected> embed;
  std::vector<std::shared_ptr<FullyConnected>> fc;
};

// Styles of a synthesis network: w is [N, w_dim], the layers' styles ws are [N, layers, w_dim].

// Layers with styles of a network with two layers for each resolution from 4 up to `pixels` (Karras
// et al. 2019 and 2020a): 2 log2(pixels) - 2.
int64_t layers_at(int64_t pixels);

// The same w for each of `layers` layers.
at::Tensor for_all_layers(const at::Tensor& w, int64_t layers);

// The truncation trick (Karras et al. 2019, app. B): w_average + psi (w - w_average) in the first
// `cutoff` layers, in all of them without one. w_average [w_dim].
at::Tensor truncated(const at::Tensor& ws,
                     const at::Tensor& w_average,
                     double psi,
                     std::optional<int64_t> cutoff);

// Style mixing (Karras et al. 2019, sec. 3.1): layers below `cutoff` take their styles from `ws`,
// the layers from `cutoff` on from `others`. cutoff is an int64 [] on any device. Where reading it
// costs nothing (on a CPU), it is read, and styles that are not used are not computed. Elsewhere
// both are computed, and nothing is waited for.
at::Tensor mix_styles(const at::Tensor& ws, const at::Tensor& others, const at::Tensor& cutoff);
// The same for two w [N, w_dim], each of which is used for all of `layers` layers. Returns [N,
// layers, w_dim].
at::Tensor mix_styles(const at::Tensor& w,
                      const at::Tensor& other,
                      const at::Tensor& cutoff,
                      int64_t layers);
// Whether mixing is known, without waiting, to take nothing from the second style: `cutoff` is at
// least `layers`. A recipe then need not compute the second style.
bool known_not_to_mix(const at::Tensor& cutoff, int64_t layers);

// The running average of w, which truncation pulls styles to (Karras et al. 2019, app. B). It moves
// once for each phase that maps latents, by the mean of w over the global batch.

// A micro-batch's share of that mean, [w_dim + 1]: the mean of w [N, w_dim], and 1. Without a
// graph.
at::Tensor sum_of_w(const at::Tensor& w);
// The mean over all micro-batches whose shares were added up, [w_dim].
at::Tensor mean_of_w(const at::Tensor& sum);
// average <- mean + beta (average - mean), in place.
void move_w_average_(at::Tensor average, const at::Tensor& mean, double beta);

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
