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

// One resolution of the synthesis network (Karras et al. 2020a, fig. 7).
struct SynthesisBlock final : torch::nn::Module {
  SynthesisBlock(const StyleBlocks& blocks, int64_t w_dim, int64_t resolution);
  Canvas forward(const Canvas& in, const at::Tensor& ws, const NoiseInputs& noise, bool fused);

  std::string name;  // "b16"
  int64_t resolution, first_w;
  bool half;
  at::Tensor constant, resample_filter;
  std::shared_ptr<ModulatedLayer> conv0, conv1;  // conv0 not at 4x4
  std::shared_ptr<ModulatedToRgb> torgb;         // "skip": always; else in the last block
  std::shared_ptr<ResamplingConv2d> skip;        // "resnet" above 4x4
};

// ws [N, num_ws, w_dim] -> [N, img_channels, R, R], about [-1, 1], the parameters' type. fused: one
// grouped convolution with weights of each sample; the same numbers, more memory.
struct Synthesis final : torch::nn::Module {
  Synthesis(const StyleBlocks& blocks, int64_t w_dim, int64_t num_ws);
  at::Tensor forward(const at::Tensor& ws, const NoiseInputs& noise = {}, bool fused = false);

  int64_t num_ws;
  std::vector<std::shared_ptr<SynthesisBlock>> blocks;
};

// z [N, z_dim], labels int64 [N] -> [N, img_channels, R, R]. Children "synthesis" and "mapping",
// which recipes may call by themselves; names as in the reference: "synthesis.b4.const".
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
