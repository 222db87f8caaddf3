// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "nn/equalised.h"
#include "nn/progressive.h"

namespace gantrain {

struct DiscriminatorShape {
  int64_t resolution = 1024;  // 4 * 2^k
  int64_t num_channels = 3;   // channels of the pictures
  int64_t label_size = 0;     // classes; 0: unconditional
  FeatureMaps maps;
  int64_t mbstd_group_size = 4;
  // With fused_scale, each level's second convolution and the 2x2 mean are one operation, and bias
  // and activation follow it. Without, bias and activation come before the mean (Karras et al.
  // 2018a, table 2).
  bool fused_scale = true;
  bool blur = false;  // blurs before the second convolution (Karras et al. 2019, sec. 2)
};

// A growing discriminator: pictures [N, C, r, r] of a level -> scores [N]. One network serves every
// size (Karras et al. 2018a, fig. 2 and table 2). With classes it has one output for each class and
// returns the output of the label's class (Mescheder et al. 2018, app. D).
//
// Names are the official ones with dots ("FromRGB_lod0.weight", "16x16.Conv0.weight",
// "16x16.Conv1_down.bias", "4x4.Dense1.weight"); layouts are torch's.
struct ProgressiveDiscriminator final : torch::nn::Module {
  explicit ProgressiveDiscriminator(const DiscriminatorShape& shape);
  // labels: int64 [N], or undefined where the network has no classes.
  at::Tensor forward(const at::Tensor& x, const Level& level, const at::Tensor& labels = {});
  // Whether a parameter takes part at a level.
  bool active(const std::string& parameter, int64_t pixels, bool fading) const;

  DiscriminatorShape shape;

 private:
  struct Block final : torch::nn::Module {
    std::shared_ptr<Equalised> conv0, conv1;  // at 4x4 there is only conv0
    std::shared_ptr<Equalised> dense0, dense1;
  };
  void add_block(int64_t pixels);
  at::Tensor from_rgb(int64_t i, const at::Tensor& x) const;
  at::Tensor halve(int64_t i, const at::Tensor& x) const;
  at::Tensor head(const at::Tensor& x, const at::Tensor& labels) const;

  std::vector<std::shared_ptr<Block>> blocks_;   // index: doublings(pixels)
  std::vector<std::shared_ptr<Equalised>> rgb_;  // in the same order
};

}  // namespace gantrain
