// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "nn/style/layers.h"
#include "recipes/stylegan3/shape.h"

namespace gantrain::stylegan3 {

// How modulated_conv() scales and pads.
struct Modulation {
  bool demodulate = true;
  int64_t padding = 0;    // zeros on each side
  at::Tensor input_gain;  // factor of x: [], [I] or [N, I]; undefined: 1
};

// A correlation whose weights differ from sample to sample (Karras et al. 2021, app. F.2, after
// Karras et al. 2020a, eq. 1-3). With `demodulate`, weight and styles are first normalised, and
// each output channel's modulated weight is scaled to unit norm; the gain comes after that. The
// styles' norm is that of all samples of the call, which counts only beside the 1e-8 under the
// root. x [N, I, H, W], weight [O, I, k, k], styles [N, I].
at::Tensor modulated_conv(const at::Tensor& x,
                          const at::Tensor& weight,
                          const at::Tensor& styles,
                          const Modulation& how);

// The network's input: plane waves with frequencies drawn once, uniform in the disc |f| <= cutoff,
// mixed by a trained matrix (Karras et al. 2021, sec. 3.1 and fig. 4a). A transform learned from w
// and one given from outside move it, both exactly.
struct SynthesisInput final : torch::nn::Module {
  SynthesisInput(const Signal& signal, int64_t w_dim, int64_t width, int64_t height);
  // w [N, w_dim] -> [N, C, height, width]. `transform`, [3, 3] or [N, 3, 3], takes the buffer's
  // place: it maps positions of the picture that is made to positions where the waves are looked
  // up, so it is the inverse of what happens to the picture. Unit: picture width, origin in the
  // middle, x to the right, y down.
  at::Tensor forward(const at::Tensor& w, const at::Tensor& transform = {});

  Signal signal;
  int64_t width, height;
  at::Tensor weight;  // [C, C]
  at::Tensor transform, freqs, phases;
  std::shared_ptr<FullyConnected> affine;  // w -> cosine, sine, x, y

 private:
  // [N, 3, 3]: the transform from w behind the given one.
  at::Tensor transforms(const at::Tensor& w, const at::Tensor& given);
};

// What forward passes that move the input magnitudes collect: the mean square of each layer's
// input, [], in the layers' order.
struct MagnitudeUpdate {
  std::vector<at::Tensor> mean_squares;
};

// Modulated convolution, bias, and a leaky ReLU between up- and down-sampling (Karras et al. 2021,
// fig. 4b). Its input is normalised by a running mean of its squared magnitude (app. F.1).
struct SynthesisLayer final : torch::nn::Module {
  SynthesisLayer(const LayerPlan& plan, const SynthesisShape& shape, int64_t w_dim);
  // x [N, in, h, h], w [N, w_dim] -> [N, out, size, size]. With `update` the input is normalised by
  // the running mean as this call's input moves it; the buffer itself stays as it is.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& w, MagnitudeUpdate* update = nullptr);

  LayerPlan plan;
  double magnitude_beta;
  std::optional<double> clamp;
  at::Tensor weight, bias;
  at::Tensor magnitude_ema;  // []
  at::Tensor up_filter, down_filter;
  std::shared_ptr<FullyConnected> affine;  // w -> styles, bias 1

 private:
  at::Tensor input_gain(const at::Tensor& x, MagnitudeUpdate* update) const;
};

// The synthesis network (Karras et al. 2021, fig. 4b): ws [N, num_ws, w_dim] -> pictures
// [N, img_channels, R, R], about in [-1, 1], in the parameters' type.
struct Synthesis final : torch::nn::Module {
  Synthesis(const SynthesisShape& shape, int64_t w_dim);
  // `update`: the layers' inputs are normalised as SynthesisLayer says, and it gets their mean
  // squares. `transform`: as in SynthesisInput.
  at::Tensor forward(const at::Tensor& ws,
                     MagnitudeUpdate* update = nullptr,
                     const at::Tensor& transform = {});

  int64_t num_ws;
  double output_scale;
  std::shared_ptr<SynthesisInput> input;
  std::vector<std::shared_ptr<SynthesisLayer>> layers;
};

// Mapping and synthesis: z [N, z_dim], labels int64 [N] -> pictures [N, img_channels, R, R].
// Recipes call the children "mapping" and "synthesis" one by one. Names are those of the reference:
// "synthesis.L3_52_13.weight".
struct Generator final : torch::nn::Module {
  explicit Generator(const GeneratorShape& shape);
  at::Tensor forward(const at::Tensor& z, const at::Tensor& labels);

  GeneratorShape shape;
  std::shared_ptr<Synthesis> synthesis;
  std::shared_ptr<StyleMapping> mapping;
};

// Draws the weights, frequencies and phases of a fresh generator, so that they depend on the seed
// alone (initialise_style_layers). The transform learned from w starts as the identity.
void initialise(Generator& G, uint64_t seed);

// A micro-batch's share of the mean squares of the layers' inputs over the global batch,
// [layers + 1]: the means, and 1.
at::Tensor sum_of_magnitudes(const MagnitudeUpdate& update);
// The running means move once: m <- q + beta (m - q), q the mean over all micro-batches whose
// shares were added up.
void move_magnitudes_(const Synthesis& synthesis, const at::Tensor& sum);

}  // namespace gantrain::stylegan3
