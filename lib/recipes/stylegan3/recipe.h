// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "gan/recipe.h"
#include "nn/style/layers.h"
#include "nn/style/shape.h"
#include "recipes/stylegan3/options.h"

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
GeneratorShape shape_of_tensors(const TensorMap& tensors, const std::string& source);

// Reads the sizes from `model`, or off the tensors where it is empty. Throws UserError(kInput) that
// names the key of `model` which contradicts the tensors.
GeneratorShape generator_shape(const Json& model,
                               const TensorMap& tensors,
                               const std::string& source);

// A layer's number and the tensor's name behind it: "synthesis.L3_52_13.affine.bias" is {3,
// "affine.bias"}; number -1 for other tensors.
struct LayerTensor {
  int64_t layer = -1;
  std::string tensor;
};
LayerTensor layer_tensor(const std::string& name);

// The names of the layers of a file, "L0_36_512", ..., in their order.
std::vector<std::string> layer_names(const TensorMap& tensors);
// The names of the layers that a shape makes.
std::vector<std::string> layer_names(const SynthesisShape& shape);
// Layers' names without their widths: "L0_36", ...
std::vector<std::string> sizes_of(const std::vector<std::string>& layers);

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

// Recipe::names_in: layers of a generator of `shape` are matched by their number, since their names
// hold sizes and widths. Filters follow from the sizes.
TensorNames names_in(const TensorMap& file, const SynthesisShape& shape);

// Recipe::values_that_fit for a run with these options, whose generator has `shape`. The sizes of D
// are looked at where the file has it.
std::vector<std::string> values_that_fit(const TensorMap& file,
                                         const Options& options,
                                         const GeneratorShape& shape);

// The row of StyleGAN3 (Karras et al. 2021) for the table of recipes. An iteration has the phases
// Gmain, Dmain, Dreg (R1).
RecipeRow row();

}  // namespace gantrain::stylegan3
