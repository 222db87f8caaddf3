// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "util/size.h"

namespace gantrain {

// Sizes of style-based networks. Names and defaults are those of the reference of Karras et al.
// 2020a. This header knows no torch, so that options may use it.

// How blocks of different resolution meet the image (Karras et al. 2020a, fig. 7).
enum class BlockArchitecture { kSkip, kResnet, kOrig };
constexpr std::array<std::string_view, 3> names(BlockArchitecture) {
  return {"skip", "resnet", "orig"};
}

// What a synthesis network and its discriminator have in common: one block for each resolution from
// the start (DoubledSize) up. Blocks are called, and their feature maps counted, by their nominal
// resolution r = 4, 8, ...: what a network for squares that begins with 4x4 has there. So the
// blocks of 256x128 are those of 128x128, b4 (8x4 pixels) to b128.
struct StyleBlocks {
  BlockArchitecture architecture = BlockArchitecture::kSkip;
  Size img_resolution = {256, 256};  // a start times a power of two
  int64_t img_channels = 3;
  int64_t channel_base = 32768;  // feature maps at r pixels: min(channel_base / r, channel_max)
  int64_t channel_max = 512;
  int64_t num_fp16_res = 0;          // so many of the highest resolutions compute in half precision
  std::optional<double> conv_clamp;  // activations are kept within +-conv_clamp

  int64_t channels(int64_t resolution) const {
    return std::min(channel_base / resolution, channel_max);
  }
  int64_t nominal() const { return doubled_size(img_resolution).nominal(); }
  // The size of the pictures in the block of that nominal resolution.
  Size size_at(int64_t resolution) const { return doubled_size(img_resolution).at(resolution); }
  // Whether the block of that resolution computes in half precision. The first one never does.
  bool half(int64_t resolution) const {
    return resolution >= 8 && (resolution << num_fp16_res) >= 2 * nominal();
  }
};

// Sizes of a mapping network, which computes w from z and the class. A discriminator uses a mapping
// network too, without z and without an average, to embed the class.
struct MappingShape {
  int64_t z_dim = 512;
  int64_t c_dim = 0;  // classes; 0: unconditional
  int64_t w_dim = 512;
  int64_t num_layers = 8;
  std::optional<int64_t> embed_features;  // length of the embedded class; none: w_dim
  std::optional<int64_t> layer_features;  // width of hidden layers; none: w_dim
  double lr_multiplier = 0.01;
  double w_avg_beta = 0.995;
  bool has_w_avg = true;

  int64_t embedding() const { return c_dim == 0 ? 0 : embed_features.value_or(w_dim); }
};

struct StyleDiscriminatorShape {
  StyleBlocks blocks{.architecture = BlockArchitecture::kResnet};
  int64_t c_dim = 0;
  std::optional<int64_t> cmap_dim;  // length of the embedded class; none: feature maps at 4x4
  int64_t mbstd_group_size = 4;     // Karras et al. 2018a, sec. 3
  int64_t mbstd_num_channels = 1;   // 0: no minibatch standard deviation
  int64_t freeze_layers = 0;        // Mo et al. 2020: so many layers from the image on are fixed
};

}  // namespace gantrain
