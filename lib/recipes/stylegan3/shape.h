// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config/value.h"
#include "nn/style/shape.h"
#include "recipes/stylegan3/schedule.h"

namespace at {
class Tensor;
}

namespace gantrain::stylegan3 {

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
