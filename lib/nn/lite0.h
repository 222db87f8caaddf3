// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <array>
#include <cstdint>
#include <vector>

namespace gantrain {

// Feature maps of an EfficientNet-Lite0 (Tan & Le 2019, arXiv:1905.11946; the Lite variant of 2020,
// without squeeze-and-excitation and with ReLU6). The defaults are the published network's.
struct Lite0Shape {
  int64_t stem = 32;
  std::array<int64_t, 7> widths = {16, 24, 40, 80, 112, 192, 320};  // of stages 0 to 6
  int64_t expansion = 6;  // of the blocks of stages 1 to 6
  int64_t head = 1280;    // features of Lite0Head

  // Channels of the four maps that Lite0::maps() returns.
  std::array<int64_t, 4> map_channels() const {
    return {widths[1], widths[2], widths[4], widths[6]};
  }
};

// One of the seven stages between stem and head (Tan & Le 2019, table 1): `repeats` blocks, of
// which the first has the stride. Its official name is "layerMAP.PLACE"; the stem, its batch
// normalisation and ReLU6 are "layer0.0" to "layer0.2".
struct Lite0Stage {
  int64_t kernel, stride, repeats;
  int64_t map, place;
};
inline constexpr std::array<Lite0Stage, 7> kLite0Stages = {{{3, 1, 1, 0, 3},
                                                            {3, 2, 2, 0, 4},
                                                            {5, 2, 2, 1, 0},
                                                            {3, 2, 3, 2, 0},
                                                            {5, 1, 3, 2, 1},
                                                            {5, 2, 4, 3, 0},
                                                            {3, 1, 1, 3, 1}}};

// A convolution without bias and the batch normalisation after it. All tensors are buffers of a
// module, so that no optimizer has them.
struct FrozenConv {
  at::Tensor weight;                 // [O, I / groups, k, k]
  at::Tensor gain, bias, mean, var;  // [O]
  at::Tensor batches;                // int64 []: counted by passes that move mean and var
  int64_t stride = 1;
  int64_t groups = 1;
  bool relu6 = true;  // whether ReLU6 follows

  // x [N, I, H, W] -> [N, O, ceil(H / stride), ceil(W / stride)] with TensorFlow's SAME padding,
  // normalised by mean and var; the gradient goes to x alone.
  at::Tensor forward(const at::Tensor& x) const;
  // The same in training mode: normalises by the batch's own statistics, towards which mean and
  // var move by the part `momentum`. Without gradients.
  at::Tensor move_statistics(const at::Tensor& x, double momentum);
};

// The frozen feature network of projected GANs (Sauer et al. 2021, sec. 3.2) and of fd_lite0.
// Parameters and statistics are buffers whose names are those of the official projected GAN below
// "feature_network.pretrained.": "layer0.0.weight", "layer0.4.1.conv_dw.weight", ... Whatever the
// module's mode, batch normalisation uses its running statistics, with eps 1e-3. Weights are zero
// and statistics 0 and 1 until they are loaded or initialise() draws them.
class Lite0 final : public torch::nn::Module {
 public:
  explicit Lite0(const Lite0Shape& shape = {});

  // Pictures [N, 3, H, W] in [-1, 1], H and W from 1 up -> four maps of strides 4, 8, 16 and 32,
  // [N, map_channels()[i], ceil(H / stride), ceil(W / stride)].
  std::array<at::Tensor, 4> maps(const at::Tensor& x) const;

  // Moves all running statistics by a tenth towards those of a black picture [1, 3, 224, 224] of
  // zeros, once and for good, as the official projected GAN does unasked when it measures the
  // channels of its feature network in training mode.
  void probe();

  // Draws weights by the seed and the layers' names alone (He et al. 2015, fan-out), then sets the
  // statistics to those of drawn pictures, so that no layer's features vanish or explode: random
  // features, for training without a file of weights. On the CPU.
  void initialise(uint64_t seed);

  const Lite0Shape& shape() const { return shape_; }

 private:
  struct Block {
    std::vector<FrozenConv> layers;
    bool adds_input = false;
  };
  static at::Tensor run(const Block& block, const at::Tensor& x);
  at::Tensor move_statistics(const at::Tensor& x, double momentum);

  Lite0Shape shape_;
  std::array<std::vector<Block>, 4> levels_;  // the blocks up to each map
};

// The last convolution of the network, 1x1 with ReLU6, and the mean over all positions: the last
// map of Lite0 [N, C, h, w] -> features [N, head], each in [0, 6]. Names are timm's:
// "conv_head.weight", "bn2.weight", ...
class Lite0Head final : public torch::nn::Module {
 public:
  explicit Lite0Head(const Lite0Shape& shape = {});
  at::Tensor forward(const at::Tensor& last_map) const;

 private:
  FrozenConv conv_;
};

// How a side of n pixels is padded for a kernel of k at stride s with TensorFlow's SAME: as evenly
// as can be, the odd pixel behind.
struct SamePadding {
  int64_t before = 0;
  int64_t after = 0;
};
SamePadding same_padding(int64_t n, int64_t k, int64_t s);

}  // namespace gantrain
