// SPDX-License-Identifier: Apache-2.0
#include "nn/progressive_discriminator.h"

#include "core/forward_precision.h"
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/minibatch_std.h"
#include "ops/resample.h"

namespace gantrain {

using at::Tensor;

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
                                         const Level& level,
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

}  // namespace gantrain
