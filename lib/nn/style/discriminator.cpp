// SPDX-License-Identifier: Apache-2.0
#include "nn/style/discriminator.h"

#include <cmath>

#include "core/forward_precision.h"
#include "core/torch.h"
#include "ops/norms/norms.h"
#include "ops/upfirdn2d/upfirdn2d.h"

namespace gantrain {

namespace {

const double kRootHalf = std::sqrt(0.5);

int64_t embedding(const StyleDiscriminatorShape& s) {
  return s.c_dim == 0 ? 0 : s.cmap_dim.value_or(s.blocks.channels(4));
}

}  // namespace

StyleDiscriminatorBlock::StyleDiscriminatorBlock(const StyleDiscriminatorShape& s,
                                                 int64_t r,
                                                 int64_t first_layer)
    : name("b" + std::to_string(r)),
      half(s.blocks.half(r)),
      keeps_image(s.blocks.architecture == BlockArchitecture::kSkip) {
  const StyleBlocks& b = s.blocks;
  const int64_t in = b.channels(r), out = b.channels(r / 2);
  resample_filter =
      register_buffer("resample_filter", setup_filter(std::vector<double>{1, 3, 3, 1}));
  const auto add = [&](const char* name, ResamplingConv2d::Config config) {
    config.trainable = first_layer + layers++ >= s.freeze_layers;
    return register_module(name, std::make_shared<ResamplingConv2d>(config));
  };
  ResamplingConv2d::Config config{.act = Activation::kLrelu, .clamp = b.conv_clamp};
  const auto sized = [&](int64_t from, int64_t to, int64_t kernel) {
    config.in = from;
    config.out = to;
    config.kernel = kernel;
    return config;
  };
  if (keeps_image || r == b.nominal()) fromrgb = add("fromrgb", sized(b.img_channels, in, 1));
  conv0 = add("conv0", sized(in, in, 3));
  config.down = 2;
  conv1 = add("conv1", sized(in, out, 3));
  if (b.architecture == BlockArchitecture::kResnet)
    skip = add("skip", {.in = in, .out = out, .kernel = 1, .bias = false, .down = 2});
}

Canvas StyleDiscriminatorBlock::forward(const Canvas& in) {
  const BlockScope named(name);
  Tensor x = in.x.defined() ? in_block_type(in.x, half, conv0->weight) : in.x;
  if (fromrgb) {
    const Tensor seen = fromrgb->forward(in_block_type(in.img, half, conv0->weight));
    x = x.defined() ? x + seen : seen;
  }
  const Tensor img = keeps_image ? downsample2d(in.img, resample_filter) : Tensor();
  const Tensor around = skip ? skip->forward(x, kRootHalf) : Tensor();
  x = conv1->forward(conv0->forward(x), skip ? kRootHalf : 1);
  return {skip ? around + x : x, img};
}

StyleDiscriminatorEpilogue::StyleDiscriminatorEpilogue(const StyleDiscriminatorShape& s)
    : group(s.mbstd_group_size), group_channels(s.mbstd_num_channels) {
  const StyleBlocks& b = s.blocks;
  const int64_t c = b.channels(4);
  if (b.architecture == BlockArchitecture::kSkip || b.nominal() == 4) {
    const ResamplingConv2d::Config rgb{
        .in = b.img_channels, .out = c, .kernel = 1, .act = Activation::kLrelu};
    fromrgb = register_module("fromrgb", std::make_shared<ResamplingConv2d>(rgb));
  }
  const ResamplingConv2d::Config three{.in = c + group_channels,
                                       .out = c,
                                       .kernel = 3,
                                       .act = Activation::kLrelu,
                                       .clamp = b.conv_clamp};
  conv = register_module("conv", std::make_shared<ResamplingConv2d>(three));
  const FullyConnected::Config wide{
      .in = c * b.size_at(4).pixels(), .out = c, .act = Activation::kLrelu};
  fc = register_module("fc", std::make_shared<FullyConnected>(wide));
  const FullyConnected::Config last{.in = c, .out = s.c_dim == 0 ? 1 : embedding(s)};
  out = register_module("out", std::make_shared<FullyConnected>(last));
}

Tensor StyleDiscriminatorEpilogue::forward(const Canvas& in) {
  const BlockScope named("b4");
  const AutocastDisabled exact("the last block: statistics of the batch, and scores");
  const at::ScalarType dtype = conv->weight.scalar_type();
  Tensor x = in.x.defined() ? in.x.to(dtype) : in.x;
  if (fromrgb) {
    const Tensor seen = fromrgb->forward(in.img.to(dtype));
    x = x.defined() ? x + seen : seen;
  }
  if (group_channels > 0) x = minibatch_std(x, group, group_channels);
  x = conv->forward(x);
  return out->forward(fc->forward(x.flatten(1)));
}

StyleDiscriminator::StyleDiscriminator(const StyleDiscriminatorShape& s) : shape(s) {
  int64_t layers = 0;
  for (int64_t r = s.blocks.nominal(); r > 4; r /= 2) {
    const auto block = std::make_shared<StyleDiscriminatorBlock>(s, r, layers);
    blocks.push_back(register_module(block->name, block));
    layers += blocks.back()->layers;
  }
  if (s.c_dim > 0) {
    MappingShape embed;
    embed.z_dim = 0;
    embed.c_dim = s.c_dim;
    embed.w_dim = embedding(s);
    embed.has_w_avg = false;
    mapping = register_module("mapping", std::make_shared<StyleMapping>(embed));
  }
  b4 = register_module("b4", std::make_shared<StyleDiscriminatorEpilogue>(s));
}

std::vector<std::string> StyleDiscriminator::layer_names() const {
  std::vector<std::string> names;
  for (const auto& block : blocks) {
    const std::pair<const char*, bool> all[] = {{"fromrgb", block->fromrgb != nullptr},
                                                {"conv0", true},
                                                {"conv1", true},
                                                {"skip", block->skip != nullptr}};
    for (const auto& [name, is_there] : all) {
      if (is_there) names.push_back(block->name + "." + name);
    }
  }
  return names;
}

Tensor StyleDiscriminator::forward(const Tensor& img, const Tensor& labels) {
  Canvas canvas{{}, img.to(b4->conv->weight.scalar_type())};
  for (const auto& block : blocks) canvas = block->forward(canvas);
  const Tensor x = b4->forward(canvas);
  if (!mapping) return x;
  const BlockScope named("mapping");
  const Tensor class_embedding = mapping->forward({}, labels);
  const double scale = 1 / std::sqrt(static_cast<double>(x.size(1)));
  return (x * class_embedding).sum(1, /*keepdim=*/true) * scale;
}

}  // namespace gantrain
