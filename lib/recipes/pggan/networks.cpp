// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/networks.h"

#include "core/forward_precision.h"
#include "core/torch.h"
#include "gan/model_json.h"
#include "ops/autocast.h"
#include "ops/norms/norms.h"
#include "ops/resample.h"

namespace gantrain::pggan {

using at::Tensor;

Generator::Generator(const Shape& s) : shape(s) {
  check_level({s.resolution}, s.resolution);
  const FeatureMaps maps = s.maps();
  const auto layer = [](const Equalised::Shape& size) { return std::make_shared<Equalised>(size); };
  for (int64_t pixels = 4; pixels <= s.resolution; pixels *= 2) {
    const int64_t in = maps.at_pixels(pixels / 2), out = maps.at_pixels(pixels);
    const auto block = register_module(block_name(pixels), std::make_shared<Block>());
    if (pixels == 4) {
      // One bias for each of the 4x4 pixels' channels. The gain is sqrt(2) / 4.
      const Equalised::Shape dense{{out * 16, s.net.latent_size}, out, kHeGain / 4};
      block->first = block->register_module("Dense", layer(dense));
      block->second = block->register_module("Conv", layer(conv_shape(out, out, 3)));
    } else {
      block->first = block->register_module(s.net.fused_scale ? "Conv0_up" : "Conv0",
                                            layer(conv_shape(in, out, 3)));
      block->second = block->register_module("Conv1", layer(conv_shape(out, out, 3)));
    }
    blocks_.push_back(block);
    rgb_.push_back(register_module(rgb_name("ToRGB", s.resolution, pixels),
                                   layer(conv_shape(out, s.num_channels, 1, /*gain=*/1))));
  }
}

Tensor Generator::forward(const Tensor& z, const StageLevel& level) {
  check_level(level, shape.resolution);
  // Pictures are float32 whatever the layers compute in.
  const auto picture_of = [&](size_t i, const Tensor& x) {
    const BlockScope named(rgb_name("ToRGB", shape.resolution, int64_t{4} << i));
    return conv(x, *rgb_[i]).to(rgb_[i]->weight.scalar_type());
  };
  Tensor x;
  {
    const BlockScope named(block_name(4));
    x = autocast_linear(pixel_norm(z), blocks_[0]->first->w());
    x = pixel_norm(lrelu(x.reshape({z.size(0), -1, 4, 4}), blocks_[0]->first->b()));
    x = pixel_norm(conv_lrelu(x, *blocks_[0]->second));
  }
  const auto top = static_cast<size_t>(doublings(level.pixels));
  Tensor below;
  for (size_t i = 1; i <= top; ++i) {
    if (i == top && level.fading()) below = nearest_up(picture_of(i - 1, x));
    const Block& block = *blocks_[i];
    const BlockScope named(block_name(int64_t{4} << i));
    x = pixel_norm(convolved_lrelu(
        x, *block.first, [&](const Tensor& weight) { return conv2d_up(x, weight); }));
    x = pixel_norm(conv_lrelu(x, *block.second));
  }
  const Tensor picture = picture_of(top, x);
  return below.defined() ? level.alpha.lerp(below, picture) : picture;
}

bool Generator::active(const std::string& parameter, int64_t pixels, bool fading) const {
  return is_active(parameter, shape.resolution, pixels, fading);
}

DiscriminatorShape discriminator_shape(const Shape& shape) {
  DiscriminatorShape d;
  d.resolution = shape.resolution;
  d.num_channels = shape.num_channels;
  d.maps = shape.maps();
  d.fused_scale = shape.net.fused_scale;
  return d;
}

Shape generator_shape(const std::map<std::string, Tensor>& tensors, const std::string& source) {
  const GeneratorTensors given{tensors, source, "a PGGAN generator"};
  Shape shape;
  shape.net.latent_size = given.size("4x4.Dense.weight", 2, 1);
  shape.net.fmap_max = given.size("4x4.Conv.weight", 4, 0);
  shape.resolution = 4;
  while (shape.resolution < 1024 && given.has(block_name(2 * shape.resolution) + ".Conv1.weight"))
    shape.resolution *= 2;
  const int64_t last = shape.resolution == 4
                           ? shape.net.fmap_max
                           : given.size(block_name(shape.resolution) + ".Conv1.weight", 4, 0);
  shape.net.fmap_base = last << (doublings(shape.resolution) + 1);
  shape.net.fused_scale = !given.has("8x8.Conv0.weight");
  shape.num_channels = given.size("ToRGB_lod0.weight", 4, 0);
  return shape;
}

}  // namespace gantrain::pggan
