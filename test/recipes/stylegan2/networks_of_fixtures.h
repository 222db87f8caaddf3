// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "core/tensors.h"
#include "nn/style/layers.h"
#include "nn/style/network_checks.h"
#include "recipes/stylegan2/recipe.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

namespace gantrain::stylegan2 {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

// The networks of fixtures/sg2_NAME_G and _D, and numbers of theirs.
struct Pair : FixturePair {
  GeneratorShape G_shape;
  StyleDiscriminatorShape D_shape;
  std::shared_ptr<Generator> G;
  std::shared_ptr<StyleDiscriminator> D;

  Pair(const std::string& name, const std::string& numbers)
      : FixturePair("sg2_" + name, numbers),
        G_shape(shape_of_model(G_model, name)),
        D_shape(style_discriminator()),
        G(std::make_shared<Generator>(G_shape)),
        D(std::make_shared<StyleDiscriminator>(D_shape)) {
    load_into(*G, G_tensors, "G");
    load_into(*D, D_tensors, "D");
  }
};

// A run on pictures of 8 pixels, batch 8.
inline std::map<std::string, Json> tiny_run(std::map<std::string, Json> changes) {
  changes.merge(std::map<std::string, Json>{{"data.resolution", 8},
                                            {"train.batch", 8},
                                            {"stylegan2.z_dim", 8},
                                            {"stylegan2.w_dim", 8},
                                            {"stylegan2.map_depth", 2},
                                            {"stylegan2.channel_base", 64},
                                            {"stylegan2.channel_max", 8},
                                            {"stylegan2.gamma", 1}});
  return changes;
}

}  // namespace gantrain::stylegan2
