// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <nlohmann/json.hpp>

#include "core/tensors.h"
#include "nn/style/layers.h"
#include "nn/style/network_checks.h"
#include "recipes/stylegan3/recipe.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

namespace gantrain::stylegan3 {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

// The fixtures' networks: T and R unconditional, T with three classes.
constexpr std::array<const char*, 3> kReferences = {"t32", "r32", "t16_c3"};

// The networks of fixtures/sg3_NAME_G and _D, and numbers of theirs.
struct Pair : FixturePair {
  GeneratorShape G_shape;
  StyleDiscriminatorShape D_shape;
  std::shared_ptr<Generator> G;
  std::shared_ptr<StyleDiscriminator> D;

  Pair(const std::string& name, const std::string& numbers)
      : FixturePair("sg3_" + name, numbers),
        G_shape(shape_of_model(G_model, name)),
        D_shape(style_discriminator()),
        G(std::make_shared<Generator>(G_shape)),
        D(std::make_shared<StyleDiscriminator>(D_shape)) {
    load_into(*G, G_tensors, "G");
    load_into(*D, D_tensors, "D");
  }

  Tensor real() const { return (*this)["in/real_u8"].to(at::kFloat) / 127.5 - 1; }
};

// A run on pictures of 8 pixels, batch 8, without blur and augmentation.
inline std::map<std::string, Json> tiny_run(std::map<std::string, Json> changes) {
  changes.merge(std::map<std::string, Json>{{"data.resolution", 8},
                                            {"train.batch", 8},
                                            {"stylegan3.z_dim", 8},
                                            {"stylegan3.w_dim", 8},
                                            {"stylegan3.num_layers", 3},
                                            {"stylegan3.margin", 2},
                                            {"stylegan3.channel_base", 64},
                                            {"stylegan3.channel_max", 8},
                                            {"stylegan3.gamma", 1},
                                            {"stylegan3.blur_sigma", 0},
                                            {"stylegan3.blur_fade", 0},
                                            {"ada.mode", "none"}});
  return changes;
}

}  // namespace gantrain::stylegan3
