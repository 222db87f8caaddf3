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

// The level that a growing network stands at (Karras et al. 2018a, sec. 2). It makes or takes
// pictures of `pixels` x `pixels`. `alpha` is the weight of the newest layers; the branch at half
// the size has 1 - alpha.
struct Level {
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
void check_level(const Level& level, int64_t resolution);

}  // namespace gantrain
