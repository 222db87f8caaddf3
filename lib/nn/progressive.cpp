// SPDX-License-Identifier: Apache-2.0
#include "nn/progressive.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/forward_precision.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/bias_act/bias_act.h"
#include "ops/modulation/modulation.h"
#include "ops/norms/norms.h"
#include "ops/resample.h"

namespace gantrain {

Equalised::Equalised(const Shape& shape) : lr(shape.lr) {
  weight = register_parameter("weight", torch::zeros(shape.weight));
  if (shape.bias > 0) bias = register_parameter("bias", torch::zeros({shape.bias}));
  const int64_t fan_in = weight.numel() / weight.size(0);
  scale = shape.gain / std::sqrt(static_cast<double>(fan_in));
}

Tensor Equalised::w() const { return weight * (scale * lr); }

Tensor Equalised::b() const { return lr == 1 ? bias : bias * lr; }

Equalised::Shape dense_shape(int64_t in, int64_t out, double gain, double lr) {
  return {{out, in}, out, gain, lr};
}

Equalised::Shape conv_shape(int64_t in, int64_t out, int64_t k, double gain) {
  return {{out, in, k, k}, out, gain, 1};
}

Tensor dense(const Tensor& x, const Equalised& layer) {
  return autocast_linear(x.flatten(1), layer.w(), layer.b());
}

Tensor conv(const Tensor& x, const Equalised& layer) {
  const int64_t padding = layer.weight.size(2) / 2;
  return autocast_conv2d(x, layer.w(), layer.b(), {.padding = {padding, padding}});
}

namespace {

BiasAct leaky_relu() {
  BiasAct how;
  how.act = Activation::kLrelu;
  how.gain = 1;  // the layer's own gain has it
  return how;
}

}  // namespace

Tensor lrelu(const Tensor& x, const Tensor& bias) { return bias_act(x, bias, leaky_relu()); }

Tensor convolved_lrelu(const Tensor& x,
                       const Equalised& layer,
                       const std::function<Tensor(const Tensor&)>& convolve) {
  if (!scale_is_free(x)) return lrelu(convolve(layer.w()), layer.b());
  return modulated_act(
      convolve(layer.weight), {.bias = layer.b(), .scale = layer.scale * layer.lr}, leaky_relu());
}

Tensor conv_lrelu(const Tensor& x, const Equalised& layer) {
  const int64_t padding = layer.weight.size(2) / 2;
  return convolved_lrelu(x, layer, [&](const Tensor& weight) {
    return autocast_conv2d(x, weight, {}, {.padding = {padding, padding}});
  });
}

void initialise_equalised(torch::nn::Module& network, const std::string& player, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : network.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const auto* layer = dynamic_cast<const Equalised*>(item.value().get());
    if (layer == nullptr) continue;
    const std::string purpose = "init/" + player + "/" + item.key() + ".weight";
    const Tensor& weight = layer->weight;
    weight.copy_(normal_like(weight, seed, purpose) / layer->lr);
    if (layer->bias.defined()) layer->bias.zero_();
  }
}

int64_t FeatureMaps::at_stage(int64_t stage) const {
  const double maps = static_cast<double>(base) / std::pow(2.0, static_cast<double>(stage) * decay);
  return std::clamp<int64_t>(static_cast<int64_t>(maps), 1, max);
}

int64_t FeatureMaps::at_pixels(int64_t pixels) const { return at_stage(doublings(pixels) + 1); }

int64_t doublings(int64_t pixels) {
  int64_t n = 0;
  for (int64_t side = 4; side < pixels; side *= 2) ++n;
  return n;
}

std::string block_name(int64_t pixels) { return fmt::format("{0}x{0}", pixels); }

std::string rgb_name(std::string_view kind, int64_t resolution, int64_t pixels) {
  return fmt::format("{}_lod{}", kind, doublings(resolution) - doublings(pixels));
}

namespace {

constexpr int64_t kMaxPixels = 1024;
constexpr std::string_view kLod = "RGB_lod";

// Returns the pixels of the network with these tensors, from its largest block
// ("D.16x16.Conv0.weight"), or 0 where it has none.
int64_t resolution_of(const std::map<std::string, Tensor>& tensors) {
  int64_t resolution = 0;
  for (const auto& item : tensors) {
    const std::string name = "." + item.first;
    for (int64_t pixels = std::max<int64_t>(4, 2 * resolution); pixels <= kMaxPixels; pixels *= 2) {
      if (name.find("." + block_name(pixels) + ".") != std::string::npos) resolution = pixels;
    }
  }
  return resolution;
}

}  // namespace

std::function<std::string(const std::string&)> level_names_in(
    const std::map<std::string, Tensor>& file, int64_t resolution) {
  const int64_t in_file = resolution_of(file);
  const int64_t more = in_file == 0 ? 0 : doublings(in_file) - doublings(resolution);
  return [more](const std::string& name) -> std::string {
    const size_t lod = name.find(kLod);
    if (lod == std::string::npos) return name;
    const size_t begin = lod + kLod.size(), end = std::min(name.find('.', begin), name.size());
    const int64_t level = std::stoll(name.substr(begin, end - begin)) + more;
    return level < 0 ? "" : name.substr(0, begin) + std::to_string(level) + name.substr(end);
  };
}

bool is_active(std::string_view parameter, int64_t resolution, int64_t pixels, bool fading) {
  const std::string_view module = parameter.substr(0, parameter.find('.'));
  if (const size_t lod = module.find(kLod); lod != std::string_view::npos) {
    const int64_t halvings = std::stoll(std::string(module.substr(lod + kLod.size())));
    const int64_t own = resolution >> halvings;
    return own == pixels || (fading && 2 * own == pixels);
  }
  const size_t x = module.find('x');
  TORCH_CHECK(x != std::string_view::npos && x > 0, "no level in parameter ", parameter);
  return std::stoll(std::string(module.substr(0, x))) <= pixels;
}

void check_level(const StageLevel& level, int64_t resolution) {
  const bool power = level.pixels > 0 && (level.pixels & (level.pixels - 1)) == 0;
  TORCH_CHECK(power && level.pixels >= 4 && level.pixels <= resolution,
              "no level of ",
              level.pixels,
              " pixels in a network of ",
              resolution);
  const double alpha = level.alpha.host();
  TORCH_CHECK(alpha >= 0 && alpha <= 1, "alpha ", alpha, " is not in [0, 1]");
}

ProgressiveDiscriminator::ProgressiveDiscriminator(const DiscriminatorShape& s) : shape(s) {
  check_level({s.resolution}, s.resolution);
  blocks_.resize(static_cast<size_t>(doublings(s.resolution)) + 1);
  rgb_.resize(blocks_.size());
  // In the order of the forward pass, as gradients' buckets expect.
  for (int64_t pixels = s.resolution; pixels >= 4; pixels /= 2) add_block(pixels);
}

void ProgressiveDiscriminator::add_block(int64_t pixels) {
  const auto i = static_cast<size_t>(doublings(pixels));
  const auto stage = static_cast<int64_t>(i) + 1;
  const int64_t maps = shape.maps.at_stage(stage), next = shape.maps.at_stage(stage - 1);
  const auto layer = [](const Equalised::Shape& size) { return std::make_shared<Equalised>(size); };
  rgb_[i] = register_module(rgb_name("FromRGB", shape.resolution, pixels),
                            layer(conv_shape(shape.num_channels, maps, 1)));
  const auto block = register_module(block_name(pixels), std::make_shared<Block>());
  blocks_[i] = block;
  if (pixels > 4) {
    block->conv0 = block->register_module("Conv0", layer(conv_shape(maps, maps, 3)));
    block->conv1 = block->register_module(shape.fused_scale ? "Conv1_down" : "Conv1",
                                          layer(conv_shape(maps, next, 3)));
    return;
  }
  const int64_t outputs = std::max<int64_t>(1, shape.label_size);
  block->conv0 = block->register_module("Conv", layer(conv_shape(maps + 1, maps, 3)));
  block->dense0 = block->register_module("Dense0", layer(dense_shape(maps * 16, next)));
  block->dense1 = block->register_module("Dense1", layer(dense_shape(next, outputs, 1)));
}

Tensor ProgressiveDiscriminator::from_rgb(int64_t i, const Tensor& x) const {
  const Equalised& layer = *rgb_[static_cast<size_t>(i)];
  const BlockScope named(rgb_name("FromRGB", shape.resolution, int64_t{4} << i));
  return conv_lrelu(x, layer);
}

Tensor ProgressiveDiscriminator::halve(int64_t i, const Tensor& features) const {
  const Block& block = *blocks_[static_cast<size_t>(i)];
  const BlockScope named(block_name(int64_t{4} << i));
  Tensor x = conv_lrelu(features, *block.conv0);
  if (shape.blur) x = blur(x);
  if (!shape.fused_scale) return box_down(conv_lrelu(x, *block.conv1));
  return convolved_lrelu(
      x, *block.conv1, [&](const Tensor& weight) { return conv2d_down(x, weight); });
}

Tensor ProgressiveDiscriminator::head(const Tensor& features, const Tensor& labels) const {
  const Block& block = *blocks_[0];
  const BlockScope named(block_name(4));
  const AutocastDisabled exact("the last block: statistics of the batch, and scores");
  Tensor x = minibatch_std(features.to(block.conv0->weight.scalar_type()), shape.mbstd_group_size);
  x = conv_lrelu(x, *block.conv0);
  x = lrelu(autocast_linear(x.flatten(1), block.dense0->w()), block.dense0->b());
  x = dense(x, *block.dense1);
  if (shape.label_size == 0) return x.select(1, 0);
  TORCH_CHECK(labels.defined() && labels.dim() == 1, "a conditional D needs labels [N]");
  return x.gather(1, labels.unsqueeze(1)).select(1, 0);
}

Tensor ProgressiveDiscriminator::forward(const Tensor& images,
                                         const StageLevel& level,
                                         const Tensor& labels) {
  check_level(level, shape.resolution);
  TORCH_CHECK(images.size(2) == level.pixels && images.size(3) == level.pixels,
              "pictures of ",
              images.sizes(),
              " at a level of ",
              level.pixels);
  const int64_t top = doublings(level.pixels);
  Tensor x = from_rgb(top, images);
  for (int64_t i = top; i > 0; --i) {
    x = halve(i, x);
    if (i == top && level.fading()) x = level.alpha.lerp(from_rgb(i - 1, box_down(images)), x);
  }
  return head(x, labels);
}

bool ProgressiveDiscriminator::active(const std::string& parameter,
                                      int64_t pixels,
                                      bool fading) const {
  return is_active(parameter, shape.resolution, pixels, fading);
}

Tensor from_tensorflow(const Tensor& variable, TfLayout layout) {
  switch (layout) {
    case TfLayout::kSame:
      return variable;
    case TfLayout::kDense:
      return variable.t().contiguous();
    case TfLayout::kConv:
      return variable.permute({3, 2, 0, 1}).contiguous();
    case TfLayout::kMirroredConv:
      return variable.permute({3, 2, 0, 1}).flip({2, 3});
    case TfLayout::kTransposedConv:
      return variable.permute({2, 3, 0, 1}).flip({2, 3});
  }
  throw std::logic_error("no such layout");
}

TensorMap from_official(const TensorMap& variables,
                        const std::string& prefix,
                        const std::string& new_prefix,
                        const LayoutOf& layout) {
  TensorMap parameters;
  for (const auto& [name, value] : variables) {
    if (name.rfind(prefix, 0) != 0) continue;
    const std::string rest = name.substr(prefix.size());
    std::string own = rest;
    std::ranges::replace(own, '/', '.');
    parameters[new_prefix + own] = from_tensorflow(value, layout(rest, value));
  }
  return parameters;
}

}  // namespace gantrain
