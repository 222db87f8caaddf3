// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tensors.h"
#include "recipes/stylegan1/recipe.h"
#include "support/official_names.h"
#include "support/tensor_checks.h"

namespace gantrain::stylegan1 {

inline Shape official_shape() {
  Shape shape;
  shape.resolution = 16;
  shape.net.latent_size = shape.net.dlatent_size = shape.net.mapping_fmaps = 32;
  shape.net.fmap_base = 256;
  shape.net.fmap_max = 32;
  return shape;
}

// The fixtures' networks of 16 pixels.
struct OfficialPair {
  OfficialPair() {
    const std::string source = "stylegan1_16_params";
    const TensorMap tensors = import_official(fixture(source), source).tensors;
    load_into(G, tensors, source);
    load_into(D, tensors, source, "D.");
  }
  // Noise is the stored one, as in the fixtures.
  at::Tensor images(const at::Tensor& ws, const StageLevel& level) {
    return G.synthesis->forward(ws, level, stored_noise());
  }

  Generator G{official_shape()};
  ProgressiveDiscriminator D{discriminator_shape(official_shape())};
};

// A small network of any size.
inline Shape tiny_shape(int64_t resolution, int64_t channels = 3, int64_t labels = 0) {
  Shape shape;
  shape.resolution = resolution;
  shape.num_channels = channels;
  shape.label_size = labels;
  shape.net = {7, 6, 5, 2, 0.01, 32, 1, 8};
  return shape;
}

// Stages of 1000 images each, 4 to 16 pixels, batch 8.
inline std::map<std::string, Json> sized(const NetworkOptions& net,
                                         std::map<std::string, Json> changes) {
  changes.merge(std::map<std::string, Json>{{"data.resolution", 16},
                                            {"train.batch", 8},
                                            {"stylegan1.latent_size", net.latent_size},
                                            {"stylegan1.dlatent_size", net.dlatent_size},
                                            {"stylegan1.mapping_fmaps", net.mapping_fmaps},
                                            {"stylegan1.mapping_layers", net.mapping_layers},
                                            {"stylegan1.fmap_base", net.fmap_base},
                                            {"stylegan1.fmap_max", net.fmap_max},
                                            {"schedule.start", 4},
                                            {"schedule.fade_kimg", 1},
                                            {"schedule.stable_kimg", 1},
                                            {"schedule.batch", "8"},
                                            {"schedule.lr_factor", "1"}});
  return changes;
}

// Turns a model's tensors back into the official variables, without metadata.
inline TensorMap export_official(const TensorMap& tensors) {
  TensorMap variables, whole;  // `whole` belongs to no part: dlatent_avg
  for (const auto& [name, value] : tensors) {
    if (name.find('.') == std::string::npos) whole[name] = value;
  }
  const LayoutOf layout = layouts(std::nullopt);
  variables.merge(to_official(tensors, "mapping.", "G_mapping/", layout));
  variables.merge(to_official(tensors, "synthesis.", "G_synthesis/", layout));
  variables.merge(to_official(whole, "", "G/", layout));
  variables.merge(to_official(tensors, "D.", "D/", layout));
  return variables;
}

}  // namespace gantrain::stylegan1
