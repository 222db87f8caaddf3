// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"
#include "nn/style/layers.h"
#include "nn/style/shape.h"

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
GeneratorShape shape_of_tensors(const TensorMap& tensors, const std::string& source);

// Reads the sizes from `model`, which may be empty, and the tensors. Throws UserError(kInput) where
// a key of `model` contradicts the tensors.
GeneratorShape generator_shape(const Json& model,
                               const TensorMap& tensors,
                               const std::string& source);

// One nominal resolution of the synthesis network (Karras et al. 2020a, fig. 7).
struct SynthesisBlock final : torch::nn::Module {
  SynthesisBlock(const StyleBlocks& blocks, int64_t w_dim, int64_t resolution);
  // What goes from block to block: feature maps with the styles of the block that they go to, and
  // the picture [N, img_channels, h, w] in the parameters' type; undefined before the first.
  struct State {
    StyledMaps maps;
    at::Tensor img;
  };
  // `ws` has a w [N, w_dim] for each layer of the network; `next` is the block after this one, or
  // null.
  State forward(const State& in,
                const std::vector<at::Tensor>& ws,
                const NoiseInputs& noise,
                bool fused,
                const SynthesisBlock* next);

  std::string name;  // "b16"
  int64_t resolution, first_w;
  bool half;
  at::Tensor constant, resample_filter;
  std::shared_ptr<ModulatedLayer> conv0, conv1;  // the first block has no conv0
  std::shared_ptr<ModulatedToRgb> torgb;         // in all blocks with "skip", else only in the last
  std::shared_ptr<ResamplingConv2d> skip;        // with "resnet", above the first
};

// The synthesis network: ws [N, num_ws, w_dim] -> pictures [N, img_channels, H, W], about in [-1,
// 1], in the parameters' type. `fused` computes each layer by one grouped convolution with a weight
// per sample: the same numbers, but more memory. `start` [C, h, w], where it is defined, takes the
// place of the learned constant.
struct Synthesis final : torch::nn::Module {
  Synthesis(const StyleBlocks& blocks, int64_t w_dim, int64_t num_ws);
  at::Tensor forward(const at::Tensor& ws,
                     const NoiseInputs& noise = {},
                     bool fused = false,
                     const at::Tensor& start = {});

  int64_t num_ws;
  std::vector<std::shared_ptr<SynthesisBlock>> blocks;
};

// Mapping and synthesis together: z [N, z_dim], labels int64 [N] -> pictures [N, img_channels, H,
// W]. Recipes may call the children "mapping" and "synthesis" one by one. Names are those of the
// reference: "synthesis.b4.const".
struct Generator final : torch::nn::Module {
  explicit Generator(const GeneratorShape& shape);
  at::Tensor forward(const at::Tensor& z,
                     const at::Tensor& labels,
                     const NoiseInputs& noise = {},
                     bool fused = false);

  GeneratorShape shape;
  std::shared_ptr<Synthesis> synthesis;
  std::shared_ptr<StyleMapping> mapping;
};

// The row of StyleGAN2 (Karras et al. 2020a) with adaptive discriminator augmentation (2020b) for
// the table of recipes. An iteration has the phases Gmain, Greg (path length), Dmain, Dreg (R1).
RecipeRow row();

}  // namespace gantrain::stylegan2
