// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tensors.h"
#include "recipes/pggan/networks.h"
#include "recipes/pggan/recipe.h"
#include "support/tensor_checks.h"

namespace gantrain::pggan {

// The fixtures' networks of 16 pixels: "pggan16" or "pggan16_unfused".
struct OfficialPair {
  explicit OfficialPair(const std::string& name)
      : shape(shape_of(name)), G(shape), D(discriminator_shape(shape)) {
    const std::string source = name + "_params";
    const TensorMap tensors = import_official(fixture(source), source).tensors;
    load_into(G, tensors, source);
    load_into(D, tensors, source, "D.");
  }
  static Shape shape_of(const std::string& name) {
    Shape shape;
    shape.resolution = 16;
    const bool fused = name == "pggan16";
    shape.net = {fused ? 32 : 16, fused ? 128 : 64, 1, fused ? 32 : 16, fused};
    return shape;
  }

  Shape shape;
  Generator G;
  ProgressiveDiscriminator D;
};

}  // namespace gantrain::pggan
