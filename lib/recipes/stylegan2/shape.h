// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config/value.h"
#include "nn/style/shape.h"

namespace at {
class Tensor;
}

namespace gantrain::stylegan2 {

struct GeneratorShape {
  MappingShape mapping;
  StyleBlocks synthesis;

  // Returns the number of styles of a picture: one for each convolution and one for the last toRGB,
  // 2 log2(R) - 2 of the nominal resolution R.
  int64_t num_ws() const;
};

constexpr double kMostOfAnySize = 1 << 20;  // far above every network, far below overflow

// The keys of "gantrain.model": arguments of the reference's constructor (gan/model_json.h). Where
// pictures are not square, img_resolution is the text "WIDTHxHEIGHT".
template <class Field>
void fields(GeneratorShape& shape, Field&& field) {
  auto& [m, s] = shape;
  const Check size = between(1, kMostOfAnySize);
  field("z_dim", m.z_dim, between(0, kMostOfAnySize), "length of z");
  field("c_dim", m.c_dim, between(0, kMostOfAnySize), "classes");
  field("w_dim", m.w_dim, size, "length of w");
  field("img_resolution", s.img_resolution, between(4, 1 << 14), "a start times a power of two");
  field("img_channels", s.img_channels, size, "of the pictures");
  field("mapping_kwargs.num_layers", m.num_layers, between(1, 1024), "layers from z to w");
  field("mapping_kwargs.embed_features", m.embed_features, size, "of the embedded class");
  field("mapping_kwargs.layer_features", m.layer_features, size, "of hidden layers");
  field("mapping_kwargs.lr_multiplier", m.lr_multiplier, between(1e-9, 1e9), "of the mapping");
  field("mapping_kwargs.w_avg_beta", m.w_avg_beta, between(0, 1), "decay of the mean of w");
  field("synthesis_kwargs.channel_base",
        s.channel_base,
        between(1, static_cast<double>(int64_t{1} << 40)),
        "feature maps at nominal r pixels: channel_base / r, ...");
  field("synthesis_kwargs.channel_max", s.channel_max, size, "... at most these");
  field("synthesis_kwargs.num_fp16_res", s.num_fp16_res, between(0, 32), "half-precision blocks");
  field("synthesis_kwargs.conv_clamp", s.conv_clamp, between(1e-9, 1e30), "bound of activations");
  field("synthesis_kwargs.architecture", s.architecture, "of the blocks");
}

// Returns the "gantrain.model" of a model file: {"recipe": "stylegan2", the reference constructor's
// arguments}.
Json to_json(const GeneratorShape& shape);

// Reads a "gantrain.model". What is absent or null stays as in `absent`; unknown keys are ignored.
// Throws UserError(kInput) that names `source` and the key of a wrong type or value.
GeneratorShape shape_of_model(const Json& model,
                              const std::string& source,
                              const GeneratorShape& absent = {});

// Reads the sizes off a generator's tensors; sizes that the tensors do not show get their defaults.
// Throws UserError(kInput) that names `source` and the tensor that is missing or does not fit.
GeneratorShape shape_of_tensors(const std::map<std::string, at::Tensor>& tensors,
                                const std::string& source);

// Reads the sizes from `model`, which may be empty, and the tensors. Throws UserError(kInput) where
// a key of `model` contradicts the tensors.
GeneratorShape generator_shape(const Json& model,
                               const std::map<std::string, at::Tensor>& tensors,
                               const std::string& source);

}  // namespace gantrain::stylegan2
