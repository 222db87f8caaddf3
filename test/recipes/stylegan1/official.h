// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tensors.h"
#include "recipes/stylegan1/networks.h"
#include "recipes/stylegan1/recipe.h"
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

}  // namespace gantrain::stylegan1
