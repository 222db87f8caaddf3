// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"
#include "nn/style/shape.h"

namespace gantrain::stylegan3 {

// A low-pass filter as it is asked for (Karras et al. 2021, sec. 3.2 and app. C.1): frequencies in
// cycles per unit of length, the width of the picture.
struct LowPass {
  int64_t taps = 1;
  double cutoff = 0;  // f_c: half of the amplitude is left here
  double width = 0;   // of the transition band, 2 f_h
  double rate = 1;    // samples per unit of length
};

// The attenuation in dB that a Kaiser window of these taps reaches outside its transition band, and
// the parameter beta with which it does (Kaiser 1974).
double kaiser_attenuation(const LowPass& filter);
double kaiser_beta(double attenuation);

// A sinc under a Kaiser window, for one axis: [taps], sum 1.
std::vector<double> separable_lowpass(const LowPass& filter);
// A radially symmetric jinc under the same window along both axes, which treats all directions
// alike: [taps, taps], sum 1. `taps` is even, so that no tap lies on the centre.
std::vector<double> radial_lowpass(const LowPass& filter);

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

struct GeneratorShape {
  MappingShape mapping{.num_layers = 2, .w_avg_beta = 0.998};
  SynthesisShape synthesis;

  // Returns the number of styles of a picture: the input's, and one for each layer.
  int64_t num_ws() const { return synthesis.num_layers + 2; }
};

// The keys of "gantrain.model": arguments of the reference's constructor (gan/model_json.h).
template <class Field>
void fields(GeneratorShape& shape, Field&& field) {
  auto& [m, s] = shape;
  const double most = 1 << 20;  // far above every network, far below overflow
  const Check size = between(1, most);
  field("z_dim", m.z_dim, between(0, most), "length of z");
  field("c_dim", m.c_dim, between(0, most), "classes");
  field("w_dim", m.w_dim, size, "length of w");
  field("img_resolution", s.img_resolution, power_of_two(4, 4096), "pixels a side");
  field("img_channels", s.img_channels, size, "of the pictures");
  field("mapping_kwargs.num_layers", m.num_layers, between(1, 1024), "layers from z to w");
  field("mapping_kwargs.lr_multiplier", m.lr_multiplier, between(1e-9, 1e9), "of the mapping");
  field("mapping_kwargs.w_avg_beta", m.w_avg_beta, between(0, 1), "decay of the mean of w");
  field("channel_base", s.channel_base, between(1, 1e12), "feature maps, over twice the cutoff");
  field("channel_max", s.channel_max, size, "... at most these");
  field("num_layers", s.num_layers, between(2, 100), "layers of the synthesis network");
  field("num_critical", s.num_critical, between(1, 99), "of them sample critically");
  field("first_cutoff", s.first_cutoff, between(0.1, most), "cutoff of the input");
  field("first_stopband", s.first_stopband, between(0.1, most), "stopband of the input");
  field("last_stopband_rel", s.last_stopband_rel, between(1, 100), "of the last cutoff");
  field("margin_size", s.margin_size, between(0, 1000), "pixels around the picture");
  field("output_scale", s.output_scale, between(1e-9, 1e9), "of the picture");
  field("num_fp16_res", s.num_fp16_res, between(0, 32), "half-precision rates");
  field("conv_kernel", s.conv_kernel, between(1, 15), "pixels a side of kernels");
  field("filter_size", s.filter_size, between(1, 100), "taps per factor of resampling");
  field("lrelu_upsampling", s.lrelu_upsampling, between(1, 16), "at the nonlinearity");
  field("use_radial_filters", s.use_radial_filters, "for down-sampling");
  field("conv_clamp", s.conv_clamp, between(1e-9, 1e30), "bound of activations");
  field("magnitude_ema_beta", s.magnitude_ema_beta, between(0, 1), "decay of input magnitudes");
}

// Returns the "gantrain.model" of a model file: {"recipe": "stylegan3", the reference constructor's
// arguments}.
Json to_json(const GeneratorShape& shape);

// Reads a "gantrain.model". What is absent has the reference's default; conv_clamp null means no
// bound; members of "synthesis_kwargs" count like those outside; unknown keys are ignored. Throws
// UserError(kInput) that names `source` and the key of a wrong type or value.
GeneratorShape shape_of_model(const Json& model, const std::string& source);

// Reads the sizes off a generator's tensors: latents, classes, pixels, layers, kernels, filters and
// widths; what tensors do not show has the reference's default. Throws UserError(kInput) that names
// `source` and the tensor that is missing or does not fit.
GeneratorShape shape_of_tensors(const std::map<std::string, at::Tensor>& tensors,
                                const std::string& source);

// Reads the sizes from `model`, or off the tensors where it is empty. Throws UserError(kInput) that
// names the key of `model` which contradicts the tensors.
GeneratorShape generator_shape(const Json& model,
                               const std::map<std::string, at::Tensor>& tensors,
                               const std::string& source);

// The widths that give a file's layers, when all its other sizes are those of `shape`: the lowest
// channel_base, a power of two where there is one.
struct Widths {
  int64_t channel_base = 0, channel_max = 0;
};
Widths widths_of(const std::vector<int64_t>& channels, const SynthesisShape& shape);

// A layer's number and the tensor's name behind it: "synthesis.L3_52_13.affine.bias" is {3,
// "affine.bias"}; number -1 for other tensors.
struct LayerTensor {
  int64_t layer = -1;
  std::string tensor;
};
LayerTensor layer_tensor(const std::string& name);

// The names of the layers of a file, "L0_36_512", ..., in their order.
std::vector<std::string> layer_names(const std::map<std::string, at::Tensor>& tensors);
// The names of the layers that a shape makes.
std::vector<std::string> layer_names(const SynthesisShape& shape);
// Layers' names without their widths: "L0_36", ...
std::vector<std::string> sizes_of(const std::vector<std::string>& layers);

}  // namespace gantrain::stylegan3
