// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/value.h"
#include "core/tensors.h"
#include "nn/style/shape.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

namespace gantrain {

inline std::set<std::string> names_of(const torch::OrderedDict<std::string, at::Tensor>& list) {
  std::set<std::string> names;
  for (const auto& item : list) names.insert(item.key());
  return names;
}

// The networks of fixtures/NAME_G and _D, and numbers of theirs in fixtures/NAME_NUMBERS.
struct FixturePair {
  using Tensors = std::map<std::string, at::Tensor>;
  TensorFile reference;
  Tensors G_tensors, D_tensors;  // without prefix
  Json G_model, D_model;         // their constructors' arguments

  FixturePair(const std::string& name, const std::string& numbers)
      : reference(fixture(name + "_" + numbers)) {
    read(name + "_G", G_tensors, G_model);
    read(name + "_D", D_tensors, D_model);
  }
  const at::Tensor& operator[](const std::string& name) const { return reference.tensors.at(name); }
  // Class numbers of the one-hot rows called `name`; undefined in unconditional pairs.
  at::Tensor labels(const std::string& name) const {
    const auto at = reference.tensors.find(name);
    return at == reference.tensors.end() ? at::Tensor() : at->second.argmax(1);
  }
  // The sizes of D where it is a StyleDiscriminator.
  StyleDiscriminatorShape style_discriminator() const {
    StyleDiscriminatorShape shape;
    shape.c_dim = D_model["c_dim"];
    shape.blocks.img_resolution = square_of(D_model["img_resolution"]);
    shape.blocks.img_channels = D_model["img_channels"];
    shape.blocks.channel_base = D_model["channel_base"];
    shape.blocks.channel_max = D_model["channel_max"];
    shape.mbstd_group_size = D_model["epilogue_kwargs"]["mbstd_group_size"];
    return shape;
  }

 private:
  static void read(const std::string& name, Tensors& tensors, Json& model) {
    const TensorFile file = fixture(name);
    for (const auto& [key, value] : file.tensors) tensors[key.substr(2)] = value;
    model = Json::parse(file.metadata.at("config"));
  }
};

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
