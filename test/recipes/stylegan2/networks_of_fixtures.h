// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/tensors.h"
#include "nn/style/discriminator.h"
#include "nn/style/network_checks.h"
#include "recipes/stylegan2/networks.h"
#include "support/tensor_checks.h"

namespace gantrain::stylegan2 {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

// The networks of fixtures/sg2_NAME_G and _D, and numbers of theirs.
struct Pair {
  TensorFile reference;
  Tensors G_tensors, D_tensors;  // without prefix
  GeneratorShape G_shape;
  StyleDiscriminatorShape D_shape;
  std::shared_ptr<Generator> G;
  std::shared_ptr<StyleDiscriminator> D;

  Pair(const std::string& name, const std::string& numbers)
      : reference(fixture("sg2_" + name + "_" + numbers)) {
    const TensorFile g = fixture("sg2_" + name + "_G"), d = fixture("sg2_" + name + "_D");
    for (const auto& [key, value] : g.tensors) G_tensors[key.substr(2)] = value;
    for (const auto& [key, value] : d.tensors) D_tensors[key.substr(2)] = value;
    G_shape = shape_of_model(Json::parse(g.metadata.at("config")), name);
    const Json config = Json::parse(d.metadata.at("config"));
    D_shape.c_dim = config["c_dim"];
    D_shape.blocks.img_resolution = square_of(config["img_resolution"]);
    D_shape.blocks.img_channels = config["img_channels"];
    D_shape.blocks.channel_base = config["channel_base"];
    D_shape.blocks.channel_max = config["channel_max"];
    D_shape.mbstd_group_size = config["epilogue_kwargs"]["mbstd_group_size"];
    G = std::make_shared<Generator>(G_shape);
    D = std::make_shared<StyleDiscriminator>(D_shape);
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

}  // namespace gantrain::stylegan2
