// SPDX-License-Identifier: Apache-2.0
#include "nn/lite0.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/tensors.h"
#include "core/torch.h"
#include "nn/modules.h"
#include "ops/autocast.h"

namespace gantrain {

namespace {

constexpr double kLiteEps = 1e-3;          // of every batch normalisation
constexpr double kProbeMomentum = 0.1;     // torch's default, which the official probe uses
constexpr int64_t kProbePixels = 224;      // a side of its picture
constexpr int64_t kCalibrationCount = 16;  // pictures that give random features their statistics
constexpr int64_t kCalibrationPixels = 64;

using Stage = Lite0Stage;

struct ConvShape {
  int64_t in, out, kernel, stride, groups;
  bool relu6;
};

// Registers the tensors of a layer in `module`, as the children `conv` and `norm`.
FrozenConv add_layer(torch::nn::Module& module,
                     const std::string& conv,
                     const std::string& norm,
                     const ConvShape& shape) {
  FrozenConv layer;
  layer.stride = shape.stride;
  layer.groups = shape.groups;
  layer.relu6 = shape.relu6;
  const auto weights = add_child<ModuleGroup>(module, conv);
  layer.weight = weights->register_buffer(
      "weight",
      at::zeros({shape.out, shape.in / shape.groups, shape.kernel, shape.kernel}, at::kFloat));
  const auto norms = add_child<ModuleGroup>(module, norm);
  layer.gain = norms->register_buffer("weight", at::ones({shape.out}));
  layer.bias = norms->register_buffer("bias", at::zeros({shape.out}));
  layer.mean = norms->register_buffer("running_mean", at::zeros({shape.out}));
  layer.var = norms->register_buffer("running_var", at::ones({shape.out}));
  layer.batches = norms->register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
  return layer;
}

// Stage 0: depth-wise, then 1x1 without ReLU6.
std::vector<FrozenConv> separable(torch::nn::Module& module, int64_t in, int64_t out, Stage stage) {
  return {add_layer(module, "conv_dw", "bn1", {in, in, stage.kernel, stage.stride, in, true}),
          add_layer(module, "conv_pw", "bn2", {in, out, 1, 1, 1, false})};
}

// An inverted residual (Sandler et al. 2018): 1x1 that widens, depth-wise, 1x1 without ReLU6.
std::vector<FrozenConv> inverted(
    torch::nn::Module& module, int64_t in, int64_t out, int64_t inner, Stage stage) {
  return {
      add_layer(module, "conv_pw", "bn1", {in, inner, 1, 1, 1, true}),
      add_layer(module, "conv_dw", "bn2", {inner, inner, stage.kernel, stage.stride, inner, true}),
      add_layer(module, "conv_pwl", "bn3", {inner, out, 1, 1, 1, false})};
}

// The convolution of x with `weight`, padded as TensorFlow's SAME.
Tensor same_conv(const FrozenConv& layer,
                 const Tensor& x,
                 const Tensor& weight,
                 const Tensor& bias) {
  const int64_t k = weight.size(2), s = layer.stride;
  const SamePadding rows = same_padding(x.size(2), k, s), columns = same_padding(x.size(3), k, s);
  if (rows.before == rows.after && columns.before == columns.after) {
    return autocast_conv2d(x, weight, bias, {s, {rows.before, columns.before}, layer.groups});
  }
  const Tensor padded =
      at::constant_pad_nd(x, {columns.before, columns.after, rows.before, rows.after});
  return autocast_conv2d(padded, weight, bias, {s, {0, 0}, layer.groups});
}

// ReLU6, where the layer has it.
Tensor activated(const FrozenConv& layer, const Tensor& x) {
  return layer.relu6 ? at::hardtanh(x, 0, 6) : x;
}

// Drawn pictures [n, 3, r, r] in [-1, 1] with detail of every size: noise of 4x4, 8x8, ... pixels,
// enlarged and added, as natural pictures have about equal contrast in every octave.
Tensor drawn_pictures(uint64_t seed) {
  Tensor sum =
      at::zeros({kCalibrationCount, 3, kCalibrationPixels, kCalibrationPixels}, at::kDouble);
  for (int64_t side = 4; side <= kCalibrationPixels; side *= 2) {
    const Tensor noise = normal_like(at::empty({kCalibrationCount, 3, side, side}),
                                     seed,
                                     fmt::format("init/feature pictures/{}", side));
    sum += at::upsample_bilinear2d(noise.to(at::kDouble),
                                   {kCalibrationPixels, kCalibrationPixels},
                                   /*align_corners=*/false);
  }
  return (sum * 0.3).clamp_(-1, 1);
}

}  // namespace

SamePadding same_padding(int64_t n, int64_t k, int64_t s) {
  const int64_t total = std::max<int64_t>(((n + s - 1) / s - 1) * s + k - n, 0);
  return {total / 2, total - total / 2};
}

// The normalisation is folded into weight and bias: one pass over the map less for each layer, in
// both directions.
Tensor FrozenConv::forward(const Tensor& x) const {
  const Tensor scale = gain * at::rsqrt(var + kLiteEps);
  const Tensor folded = weight * scale.reshape({-1, 1, 1, 1});
  return activated(*this, same_conv(*this, x, folded, bias - mean * scale));
}

Tensor FrozenConv::move_statistics(const Tensor& x, double momentum) {
  const torch::NoGradGuard no_grad;
  const Tensor y = same_conv(*this, x, weight, {});
  batches.add_(1);
  return activated(
      *this,
      at::batch_norm(y, gain, bias, mean, var, /*training=*/true, momentum, kLiteEps, false));
}

Lite0::Lite0(const Lite0Shape& shape) : shape_(shape) {
  std::vector<std::shared_ptr<ModuleGroup>> maps;
  for (size_t map = 0; map < levels_.size(); ++map)
    maps.push_back(add_child<ModuleGroup>(*this, fmt::format("layer{}", map)));
  levels_[0].push_back(
      {{add_layer(*maps[0], "0", "1", {3, shape.stem, 3, 2, 1, true})}, /*adds_input=*/false});
  int64_t in = shape.stem;
  for (size_t i = 0; i < kLite0Stages.size(); ++i) {
    const auto map = static_cast<size_t>(kLite0Stages[i].map);
    const auto group = add_child<ModuleGroup>(*maps[map], std::to_string(kLite0Stages[i].place));
    for (int64_t repeat = 0; repeat < kLite0Stages[i].repeats; ++repeat) {
      Stage stage = kLite0Stages[i];
      if (repeat > 0) stage.stride = 1;
      const auto module = add_child<ModuleGroup>(*group, std::to_string(repeat));
      const int64_t out = shape.widths[i];
      levels_[map].push_back({i == 0 ? separable(*module, in, out, stage)
                                     : inverted(*module, in, out, in * shape.expansion, stage),
                              repeat > 0});
      in = out;
    }
  }
  eval();
}

Tensor Lite0::run(const Block& block, const Tensor& x) {
  Tensor y = x;
  for (const FrozenConv& layer : block.layers) y = layer.forward(y);
  return block.adds_input ? y + x : y;
}

std::array<Tensor, 4> Lite0::maps(const Tensor& x) const {
  std::array<Tensor, 4> maps;
  Tensor y = x;
  for (size_t i = 0; i < levels_.size(); ++i) {
    for (const Block& block : levels_[i]) y = run(block, y);
    maps[i] = y;
  }
  return maps;
}

Tensor Lite0::move_statistics(const Tensor& x, double momentum) {
  Tensor y = x;
  for (std::vector<Block>& level : levels_) {
    for (Block& block : level) {
      const Tensor in = y;
      for (FrozenConv& layer : block.layers) y = layer.move_statistics(y, momentum);
      if (block.adds_input) y = y + in;
    }
  }
  return y;
}

void Lite0::probe() {
  const Tensor& like = levels_[0].front().layers.front().weight;
  move_statistics(at::zeros({1, 3, kProbePixels, kProbePixels}, like.options()), kProbeMomentum);
}

// In float64, so that the statistics, rounded to float32, do not depend on the order of sums, which
// differs between numbers of threads.
void Lite0::initialise(uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_of(*this)) {
    if (tensor.dim() != 4) continue;
    const int64_t groups = tensor.size(1) == 1 ? tensor.size(0) : 1;
    const auto fan_out = static_cast<double>(tensor.numel() / tensor.size(1) / groups);
    tensor.copy_(normal_like(tensor, seed, "init/features/" + name) * std::sqrt(2 / fan_out));
  }
  const at::ScalarType type = levels_[0].front().layers.front().weight.scalar_type();
  to_device(*this, at::kCPU, at::kDouble);
  move_statistics(drawn_pictures(seed), /*momentum=*/1);
  to_device(*this, at::kCPU, type);
}

Lite0Head::Lite0Head(const Lite0Shape& shape)
    : conv_(add_layer(*this, "conv_head", "bn2", {shape.widths[6], shape.head, 1, 1, 1, true})) {
  eval();
}

Tensor Lite0Head::forward(const Tensor& last_map) const {
  return conv_.forward(last_map).mean({2, 3});
}

}  // namespace gantrain
