// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace at {
class Tensor;
}

namespace gantrain::stylegan2 {

// How blocks of different resolution meet the image (Karras et al. 2020a, fig. 7).
enum class Architecture { kSkip, kResnet, kOrig };
constexpr std::array<std::string_view, 3> names(Architecture) { return {"skip", "resnet", "orig"}; }

// What synthesis network and discriminator have in common. Names and defaults are the reference's.
struct Blocks {
  Architecture architecture = Architecture::kSkip;
  int64_t img_resolution = 256;  // a power of two, 4 or more
  int64_t img_channels = 3;
  int64_t channel_base = 32768;  // feature maps at r pixels: min(channel_base / r, channel_max)
  int64_t channel_max = 512;
  int64_t num_fp16_res = 0;          // so many of the highest resolutions compute in half precision
  std::optional<double> conv_clamp;  // activations are kept within +-conv_clamp

  int64_t channels(int64_t resolution) const {
    return std::min(channel_base / resolution, channel_max);
  }
  // Never at 4x4.
  bool half(int64_t resolution) const {
    return resolution >= 8 && (resolution << num_fp16_res) >= 2 * img_resolution;
  }
};

// z and class -> w. D uses one too, without z and without an average, to embed the class.
struct MappingShape {
  int64_t z_dim = 512;
  int64_t c_dim = 0;  // classes; 0: unconditional
  int64_t w_dim = 512;
  int64_t num_layers = 8;
  std::optional<int64_t> embed_features;  // of the class; none: w_dim
  std::optional<int64_t> layer_features;  // of hidden layers; none: w_dim
  double lr_multiplier = 0.01;
  double w_avg_beta = 0.995;
  bool has_w_avg = true;

  int64_t embedding() const { return c_dim == 0 ? 0 : embed_features.value_or(w_dim); }
};

struct GeneratorShape {
  MappingShape mapping;
  Blocks synthesis;

  // Styles of a picture: one for each convolution and one for the last toRGB; 2 log2(R) - 2.
  int64_t num_ws() const;
};

struct DiscriminatorShape {
  Blocks blocks{.architecture = Architecture::kResnet};
  int64_t c_dim = 0;
  std::optional<int64_t> cmap_dim;  // of the embedded class; none: feature maps at 4x4
  int64_t mbstd_group_size = 4;     // Karras et al. 2018a, sec. 3
  int64_t mbstd_num_channels = 1;   // 0: no minibatch standard deviation
  int64_t freeze_layers = 0;        // Mo et al. 2020: so many layers from the image on are fixed
};

// "gantrain.model" of a model file: {"recipe": "stylegan2", the reference constructor's arguments}.
Json to_json(const GeneratorShape& shape);

// The other way. What is absent or null stays as in `absent`; unknown keys are passed over. Throws
// UserError(kInput) naming `source` and the key of a wrong type or value.
GeneratorShape shape_of_model(const Json& model,
                              const std::string& source,
                              const GeneratorShape& absent = {});

// Sizes read off a generator's tensors; what they do not tell has its default. Throws
// UserError(kInput) naming `source` and the tensor that is missing or does not fit.
GeneratorShape shape_of_tensors(const std::map<std::string, at::Tensor>& tensors,
                                const std::string& source);

// Both together: a key of `model` that contradicts the tensors is a UserError(kInput). `model` may
// be empty.
GeneratorShape generator_shape(const Json& model,
                               const std::map<std::string, at::Tensor>& tensors,
                               const std::string& source);

}  // namespace gantrain::stylegan2
