// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tensors.h"
#include "recipes/pggan/recipe.h"
#include "support/official_names.h"
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

// Stages of 1000 images each, up to 16 pixels, batch 8.
inline std::map<std::string, Json> sized(const NetworkOptions& net,
                                         std::map<std::string, Json> changes) {
  changes.merge(std::map<std::string, Json>{{"data.resolution", 16},
                                            {"train.batch", 8},
                                            {"pggan.latent_size", net.latent_size},
                                            {"pggan.fmap_base", net.fmap_base},
                                            {"pggan.fmap_max", net.fmap_max},
                                            {"pggan.fused_scale", net.fused_scale},
                                            {"schedule.start", 4},
                                            {"schedule.fade_kimg", 1},
                                            {"schedule.stable_kimg", 1},
                                            {"schedule.batch", "8"},
                                            {"schedule.lr_factor", "1"}});
  return changes;
}

// Turns a model's tensors back into the official variables, without metadata.
inline TensorMap export_official(const TensorMap& tensors) {
  TensorMap generator, discriminator;
  for (const auto& [name, value] : tensors)
    (starts_with(name, "D.") ? discriminator : generator)[name] = value;
  TensorMap variables = to_official(generator, "", "G/", layout_of);
  variables.merge(to_official(discriminator, "D.", "D/", layout_of));
  return variables;
}

}  // namespace gantrain::pggan
