// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"

namespace gantrain {

// The gain of layers that a leaky ReLU follows (He et al. 2015); linear layers have 1.
constexpr double kHeGain = 1.41421356237309504880;

// The weight and bias of a layer with equalised learning rate (Karras et al. 2018a, sec. 4.1): the
// weight is stored with unit variance and multiplied by gain / sqrt(fan-in) where it is used. `lr`
// below 1 makes the layer learn slower by that factor (Karras et al. 2019, app. C): weight and bias
// are multiplied by `lr` where they are used, and the initial weight is divided by it. Both are
// zero until initialise_equalised().
struct Equalised final : torch::nn::Module {
  struct Shape {
    std::vector<int64_t> weight;  // its shape: [out, in] or [out, in, k, k]
    int64_t bias = 0;             // length; 0: no bias
    double gain = kHeGain;
    double lr = 1;
  };
  explicit Equalised(const Shape& shape);
  at::Tensor w() const;  // the weight with its factors
  at::Tensor b() const;

  at::Tensor weight, bias;
  double scale, lr;
};

Equalised::Shape dense_shape(int64_t in, int64_t out, double gain = kHeGain, double lr = 1);
// A k x k convolution with a bias.
Equalised::Shape conv_shape(int64_t in, int64_t out, int64_t k, double gain = kHeGain);

// A dense layer: flattens x [N, ...] and returns W x + b, [N, out].
at::Tensor dense(const at::Tensor& x, const Equalised& layer);
// A k x k convolution that keeps the picture's size, with the layer's bias.
at::Tensor conv(const at::Tensor& x, const Equalised& layer);
// Returns leaky ReLU (negative slope .2) of convolve(w) + b, where convolve is linear in the weight
// w. For float32 on a CPU the weight's factor multiplies the convolution's result instead, in the
// pass that adds the bias. `x` is what is convolved.
at::Tensor convolved_lrelu(const at::Tensor& x,
                           const Equalised& layer,
                           const std::function<at::Tensor(const at::Tensor& weight)>& convolve);
// The same for a k x k convolution that keeps the picture's size.
at::Tensor conv_lrelu(const at::Tensor& x, const Equalised& layer);
// Returns leaky ReLU (negative slope .2) of x + bias; bias is [x.size(1)]. The output is not
// multiplied by sqrt 2.
at::Tensor lrelu(const at::Tensor& x, const at::Tensor& bias);

// Draws the weights of all Equalised layers in `network` from N(0, 1) / lr and sets their biases to
// 0. The values depend on the seed, `player` and the layers' names alone.
void initialise_equalised(torch::nn::Module& network, const std::string& player, uint64_t seed);

// The level that a growing network stands at (Karras et al. 2018a, sec. 2). It makes or takes
// pictures of `pixels` x `pixels`. `alpha` is the weight of the newest layers; the branch at half
// the size has 1 - alpha.
struct StageLevel {
  int64_t pixels = 0;      // a power of two from 4 up
  DeviceNumber alpha = 1;  // in [0, 1]
  // Whether the branch at half the size takes part. The smallest level has no such branch.
  bool fading() const { return alpha.host() < 1 && pixels > 4; }
};

// Numbers of feature maps by stage: min(base / 2^(decay * stage), max), at least 1. Pictures of 2^k
// pixels a side belong to stage k - 1.
struct FeatureMaps {
  int64_t base = 8192;
  double decay = 1;
  int64_t max = 512;
  int64_t at_stage(int64_t stage) const;
  int64_t at_pixels(int64_t pixels) const;
};

// Returns how often 4 pixels are doubled to get `pixels`, a power of two: 0 for 4, 1 for 8.
int64_t doublings(int64_t pixels);
// block_name() is the name of a level's layers, "16x16". rgb_name() is the name of a level's 1x1
// convolution in a network of `resolution`, "ToRGB_lod2" or "FromRGB_lod2"; lod counts from the
// full size down.
std::string block_name(int64_t pixels);
std::string rgb_name(std::string_view kind, int64_t resolution, int64_t pixels);

// Returns a function from a tensor's name in a progressive network of `resolution` to its name in
// `file`, whose network may have another size. Layers of the same pixels correspond, but the
// numbers after "lod" count from the full size and so differ. The function returns "" where the
// file's network has no such level. Other names, and all names if the file is of another kind of
// network, stay the same.
std::function<std::string(const std::string& name)> level_names_in(
    const std::map<std::string, at::Tensor>& file, int64_t resolution);

// Whether a parameter of a progressive network of `resolution` takes part at a level. `parameter`
// is its registered name ("16x16.Conv1.weight", "ToRGB_lod0.bias"). Parameters that do not take
// part get no gradient.
bool is_active(std::string_view parameter, int64_t resolution, int64_t pixels, bool fading);

// Throws c10::Error unless the network has this level and alpha lies in [0, 1].
void check_level(const StageLevel& level, int64_t resolution);

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
  at::Tensor forward(const at::Tensor& x, const StageLevel& level, const at::Tensor& labels = {});
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

// How TensorFlow 1 networks store a variable that torch stores as [O, I, k, k] or [out, in].
enum class TfLayout {
  kSame,            // biases, constants
  kDense,           // [in, out]
  kConv,            // [k, k, I, O]
  kMirroredConv,    // [k, k, I, O], both spatial axes reversed
  kTransposedConv,  // [k, k, O, I], both spatial axes reversed: PGGAN's fused up-sampling
};

at::Tensor from_tensorflow(const at::Tensor& variable, TfLayout layout);

using TensorMap = std::map<std::string, at::Tensor>;
using LayoutOf = std::function<TfLayout(const std::string& variable, const at::Tensor& value)>;

// Turns the variables whose names begin with `prefix` into parameters: with prefix
// "G/" and new_prefix "", "G/4x4/Conv/weight" becomes "4x4.Conv.weight". `layout` gets the part of
// the variable's name after the prefix.
TensorMap from_official(const TensorMap& variables,
                        const std::string& prefix,
                        const std::string& new_prefix,
                        const LayoutOf& layout);
}  // namespace gantrain
