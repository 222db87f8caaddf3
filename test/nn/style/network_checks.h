// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/tensors.h"
#include "nn/style/shape.h"
#include "support/tensor_checks.h"

namespace gantrain {

// Tensors of a network by name.
inline std::map<std::string, at::Tensor> tensors_of(const torch::nn::Module& net) {
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, tensor] : state_of(net)) all[name] = tensor;
  return all;
}

inline std::set<std::string> names_of(const torch::OrderedDict<std::string, at::Tensor>& list) {
  std::set<std::string> names;
  for (const auto& item : list) names.insert(item.key());
  return names;
}

inline int64_t count(const std::vector<at::Tensor>& tensors) {
  int64_t n = 0;
  for (const at::Tensor& t : tensors) n += t.numel();
  return n;
}

// Names, shapes and types of a network are those of a file.
inline void check_same_layout(const torch::nn::Module& net,
                              const std::map<std::string, at::Tensor>& file) {
  const std::map<std::string, at::Tensor> mine = tensors_of(net);
  CHECK(mine.size() == file.size());
  for (const auto& [name, tensor] : file) {
    CAPTURE(name);
    REQUIRE(mine.count(name) == 1);
    CHECK(mine.at(name).sizes() == tensor.sizes());
    CHECK(mine.at(name).scalar_type() == tensor.scalar_type());
  }
}

inline void check_finite_gradients(const torch::nn::Module& net) {
  for (const auto& item : net.named_parameters()) {
    CAPTURE(item.key());
    REQUIRE(item.value().grad().defined());
    CHECK(item.value().grad().isfinite().all().item<bool>());
    CHECK(item.value().grad().abs().max().item<double>() > 0);
  }
}

// Widths small enough for a test: 16 feature maps, fewer at the highest resolutions.
inline StyleBlocks small_blocks(BlockArchitecture architecture,
                                int64_t resolution,
                                int64_t channels) {
  StyleBlocks b;
  b.architecture = architecture;
  b.img_resolution = square_of(resolution);
  b.img_channels = channels;
  b.channel_base = 256;
  b.channel_max = 16;
  return b;
}

constexpr std::array<BlockArchitecture, 3> kArchitectures = {
    BlockArchitecture::kSkip, BlockArchitecture::kResnet, BlockArchitecture::kOrig};

// The library's defaults of Karras et al. 2020a at `resolution`, or half as wide ("auto").
inline StyleBlocks full_blocks(BlockArchitecture architecture, int64_t resolution, int64_t base) {
  StyleBlocks b;
  b.architecture = architecture;
  b.img_resolution = square_of(resolution);
  b.channel_base = base;
  return b;
}

}  // namespace gantrain
