// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "core/tensors.h"
#include "recipes/stylegan2/discriminator.h"
#include "recipes/stylegan2/generator.h"
#include "tensor_checks.h"

namespace gantrain::stylegan2 {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

// The networks of fixtures/sg2_NAME_G and _D, and numbers of theirs.
struct Pair {
  TensorFile reference;
  Tensors G_tensors, D_tensors;  // without prefix
  GeneratorShape G_shape;
  DiscriminatorShape D_shape;
  std::shared_ptr<Generator> G;
  std::shared_ptr<Discriminator> D;

  Pair(const std::string& name, const std::string& numbers)
      : reference(fixture("sg2_" + name + "_" + numbers)) {
    const TensorFile g = fixture("sg2_" + name + "_G"), d = fixture("sg2_" + name + "_D");
    for (const auto& [key, value] : g.tensors) G_tensors[key.substr(2)] = value;
    for (const auto& [key, value] : d.tensors) D_tensors[key.substr(2)] = value;
    G_shape = shape_of_model(Json::parse(g.metadata.at("config")), name);
    const Json config = Json::parse(d.metadata.at("config"));
    D_shape.c_dim = config["c_dim"];
    D_shape.blocks.img_resolution = config["img_resolution"];
    D_shape.blocks.img_channels = config["img_channels"];
    D_shape.blocks.channel_base = config["channel_base"];
    D_shape.blocks.channel_max = config["channel_max"];
    D_shape.mbstd_group_size = config["epilogue_kwargs"]["mbstd_group_size"];
    G = std::make_shared<Generator>(G_shape);
    D = std::make_shared<Discriminator>(D_shape);
    load_into(*G, G_tensors, "G");
    load_into(*D, D_tensors, "D");
  }

  const Tensor& operator[](const std::string& name) const { return reference.tensors.at(name); }
  // Class numbers of the one-hot rows called `name`; undefined in the unconditional pair.
  Tensor labels(const std::string& name) const {
    const auto at = reference.tensors.find(name);
    return at == reference.tensors.end() ? Tensor() : at->second.argmax(1);
  }
};

// Tensors of a network by name.
inline Tensors tensors_of(const torch::nn::Module& net) {
  Tensors all;
  for (const auto& [name, tensor] : state_of(net)) all[name] = tensor;
  return all;
}

inline std::set<std::string> names_of(const torch::OrderedDict<std::string, Tensor>& list) {
  std::set<std::string> names;
  for (const auto& item : list) names.insert(item.key());
  return names;
}

inline int64_t count(const std::vector<Tensor>& tensors) {
  int64_t n = 0;
  for (const Tensor& t : tensors) n += t.numel();
  return n;
}

// Names, shapes and types of a network are those of a file.
inline void check_same_layout(const torch::nn::Module& net, const Tensors& file) {
  const Tensors mine = tensors_of(net);
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
inline Blocks small_blocks(Architecture architecture, int64_t resolution, int64_t channels) {
  Blocks b;
  b.architecture = architecture;
  b.img_resolution = resolution;
  b.img_channels = channels;
  b.channel_base = 256;
  b.channel_max = 16;
  return b;
}

constexpr std::array<Architecture, 3> kArchitectures = {
    Architecture::kSkip, Architecture::kResnet, Architecture::kOrig};

// The library's defaults of Karras et al. 2020a at `resolution`, or half as wide ("auto").
inline Blocks full_blocks(Architecture architecture, int64_t resolution, int64_t base) {
  Blocks b;
  b.architecture = architecture;
  b.img_resolution = resolution;
  b.channel_base = base;
  return b;
}

}  // namespace gantrain::stylegan2
