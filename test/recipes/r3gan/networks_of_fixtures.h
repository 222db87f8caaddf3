// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <nlohmann/json.hpp>

#include "nn/style/network_checks.h"
#include "recipes/r3gan/recipe.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

namespace gantrain::r3gan {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

// The fixtures' networks: unconditional of 32 pixels, conditional of 16.
constexpr std::array<const char*, 2> kReferences = {"uncond32", "cond16"};

// The networks of fixtures/r3gan_NAME_G and _D, and numbers of theirs.
struct Networks : FixturePair {
  Shape shape;
  std::shared_ptr<Generator> G;
  std::shared_ptr<Discriminator> D;

  Networks(const std::string& name, const std::string& numbers)
      : FixturePair("r3gan_" + name, numbers),
        shape(generator_shape(G_model, G_tensors, name)),
        G(std::make_shared<Generator>(shape)),
        D(std::make_shared<Discriminator>(shape)) {
    load_into(*G, G_tensors, "G");
    load_into(*D, D_tensors, "D");
  }

  Tensor real() const { return as_pictures((*this)["in/real_u8"]); }
  // The class numbers in a file of the same networks; undefined in the unconditional pair.
  static Tensor labels(const TensorFile& io) {
    const auto at = io.tensors.find("in/class_idx");
    return at == io.tensors.end() ? Tensor() : at->second;
  }
  static Tensor as_pictures(const Tensor& u8) { return u8.to(at::kFloat) / 127.5 - 1; }
};

}  // namespace gantrain::r3gan
