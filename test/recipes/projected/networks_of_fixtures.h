// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <set>

#include "recipes/projected/recipe.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

namespace gantrain::projected {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

// A fixture's tensors without the two characters of their prefix, "G/" or "D/", and its header.
struct NetworkFile {
  explicit NetworkFile(const std::string& name) {
    const TensorFile file = fixture(name);
    for (const auto& [key, value] : file.tensors) tensors[key.substr(2)] = value;
    config = Json::parse(file.metadata.at("config"));
  }
  Tensors tensors;
  Json config;
};

inline std::shared_ptr<Generator> generator_of(const std::string& name) {
  const NetworkFile file("proj_" + name + "_G");
  auto G = std::make_shared<Generator>(generator_shape(file.config, file.tensors, name));
  load_into(*G, file.tensors, name);
  return G;
}

// The narrow feature network of the fixtures, as projected.feature_widths has it.
inline Lite0Shape narrow_features() {
  Lite0Shape shape;
  shape.stem = 8;
  shape.widths = {4, 8, 8, 12, 16, 16, 24};
  return shape;
}
constexpr int64_t kNarrowCout = 8;

inline DiscriminatorShape discriminator_shape(const Json& config) {
  DiscriminatorShape s;
  s.features = narrow_features();
  s.cout = kNarrowCout;
  s.ndf = config["ndf"].get<int64_t>();
  s.separable = config["separable"].get<bool>();
  s.c_dim = config.value("c_dim", 0);
  s.cmap_dim = config.value("cmap_dim", 64);
  s.embedding = config.value("embedding_dim", 128);
  return s;
}

// Heads and features of D.
inline Tensors discriminator_tensors(const std::string& name) {
  Tensors all = NetworkFile("proj_" + name + "_D").tensors;
  all.merge(NetworkFile("proj_features").tensors);
  return all;
}

inline Tensor as_pictures(const Tensor& u8) { return u8.to(at::kFloat) / 127.5 - 1; }

// The fixture's noise of a call: `prefix` + "00", "01", ..., each [N, 1, 8, 8], repeated.
inline NoiseInputs tiled_noise(const TensorFile& file,
                               const std::string& prefix = "in/noise_tile") {
  return [&file, prefix](int64_t layer, const Size& size) {
    const Tensor tile = file.tensors.at(fmt::format("{}{:02}", prefix, layer));
    return tile.repeat({1, 1, size.height / 8, size.width / 8});
  };
}

inline Tensor at_or_none(const TensorFile& file, const std::string& name) {
  const auto at = file.tensors.find(name);
  return at == file.tensors.end() ? Tensor() : at->second;
}

}  // namespace gantrain::projected
