// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "nn/style/layers.h"
#include "nn/style/mapping.h"
#include "nn/style/noise.h"
#include "recipes/stylegan2/shape.h"

namespace gantrain::stylegan2 {

// One nominal resolution of the synthesis network (Karras et al. 2020a, fig. 7).
struct SynthesisBlock final : torch::nn::Module {
  SynthesisBlock(const StyleBlocks& blocks, int64_t w_dim, int64_t resolution);
  Canvas forward(const Canvas& in, const at::Tensor& ws, const NoiseInputs& noise, bool fused);

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

}  // namespace gantrain::stylegan2
