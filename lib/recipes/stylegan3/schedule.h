// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipes/stylegan3/filters.h"

namespace gantrain::stylegan3 {

// Sizes of a synthesis network, with the names and defaults of the reference's constructor (Karras
// et al. 2021, sec. 3.2 and app. D). The defaults are those of configuration T; R has kernels of
// one pixel, radial filters and twice the feature maps.
struct SynthesisShape {
  int64_t img_resolution = 256;  // R, a power of two
  int64_t img_channels = 3;
  int64_t channel_base = 32768;
  int64_t channel_max = 512;
  int64_t num_layers = 14;   // N, without the input and without toRGB
  int64_t num_critical = 2;  // so many of the last layers sample critically
  double first_cutoff = 2;
  double first_stopband = std::exp2(2.1);
  double last_stopband_rel = std::exp2(0.3);
  int64_t margin_size = 10;  // pixels around the picture
  double output_scale = 0.25;
  int64_t num_fp16_res = 4;  // so many of the highest rates compute in half precision
  int64_t conv_kernel = 3;
  int64_t filter_size = 6;       // taps per factor of resampling
  int64_t lrelu_upsampling = 2;  // factor of the rate at which the nonlinearity is applied
  bool use_radial_filters = false;
  std::optional<double> conv_clamp = 256;  // activations are kept within +-conv_clamp
  double magnitude_ema_beta = 0.999;
};

// What the signal behind layer i is: bandlimits in cycles per picture width, at the layer's
// sampling rate (Karras et al. 2021, fig. 4c).
struct Signal {
  double cutoff = 0;      // f_c
  double stopband = 0;    // f_t
  double half_width = 0;  // f_h, of the transition band
  int64_t rate = 0;       // s: samples per picture width
  int64_t size = 0;       // pixels a side, with the margin
  int64_t channels = 0;
};

// One layer of the network: it turns the signal `in` into `out`.
struct LayerPlan {
  std::string name;  // "L3_52_13": number, size and channels
  Signal in, out;
  bool to_rgb = false;
  bool half = false;  // computes in half precision
  int64_t kernel = 3;
  int64_t up = 1, down = 1;             // factors around the nonlinearity
  std::array<int64_t, 4> padding = {};  // x0, x1, y0, y1 behind the up-sampling
  std::optional<LowPass> up_filter, down_filter;
  bool down_is_radial = false;
};

// The signals of all layers i = 0 to N; the last one is the picture before its output scale.
std::vector<Signal> signals_of(const SynthesisShape& shape);
// The layers in their order: N layers, then toRGB. The first layer's `in` is the signal that the
// Fourier features make.
std::vector<LayerPlan> layers_of(const SynthesisShape& shape);

}  // namespace gantrain::stylegan3
