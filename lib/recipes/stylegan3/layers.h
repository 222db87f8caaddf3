// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "nn/style/layers.h"
#include "recipes/stylegan3/schedule.h"

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

}  // namespace gantrain::stylegan3
