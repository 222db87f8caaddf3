// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/device_number.h"

namespace gantrain {

// Where a progressive network stands while it grows (Karras et al. 2018a, sec. 2): it makes or
// takes pictures of `pixels` x `pixels`, whose layers weigh `alpha` against those of half the size.
struct Level {
  int64_t pixels = 0;      // a power of two from 4 up
  DeviceNumber alpha = 1;  // 0 to 1
  // Only then do the branches of half the size take part. The smallest level has none.
  bool fading() const { return alpha.host() < 1 && pixels > 4; }
};

// Feature maps by stage: min(base / 2^(decay * stage), max), 2^k pixels being stage k - 1.
struct FeatureMaps {
  int64_t base = 8192;
  double decay = 1;
  int64_t max = 512;
  int64_t at_stage(int64_t stage) const;
  int64_t at_pixels(int64_t pixels) const;
};

// Number of a power of two's doublings from 4 pixels: 0 for 4, 1 for 8.
int64_t doublings(int64_t pixels);
// "16x16": the name of a level's layers; "ToRGB_lod2" or "FromRGB_lod2": that of its 1x1
// convolution in a network of `resolution`.
std::string block_name(int64_t pixels);
std::string rgb_name(std::string_view kind, int64_t resolution, int64_t pixels);

// What a tensor of a progressive network of `resolution` is called in the file of one of another
// size with these tensors: levels are the same by their pixels, but lod counts from the top. Empty:
// the file's network has no such level. Names of other tensors, and in files of other networks, are
// the same.
std::function<std::string(const std::string& name)> level_names_in(
    const std::map<std::string, at::Tensor>& file, int64_t resolution);

// Whether a parameter of a progressive network of `resolution`, by its registered name
// ("16x16.Conv1.weight", "ToRGB_lod0.bias"), takes part at a level. All others get no gradient.
bool is_active(std::string_view parameter, int64_t resolution, int64_t pixels, bool fading);

// A level that the network has: throws c10::Error otherwise.
void check_level(const Level& level, int64_t resolution);

}  // namespace gantrain
