// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "gan/phase.h"

namespace gantrain {

// Draws what generated pictures are made of: latents, classes and the cuts of style mixing. Each
// sample of the global batch has its own draws, whatever rank or micro-batch it is in. Everything
// is drawn on the key's device, and nothing waits for it.
class Latents {
 public:
  // `class_counts` holds the number of real pictures of each class; empty: no labels.
  Latents(int64_t z_dim, const std::vector<int64_t>& class_counts, at::Device device);

  // Draws z [N, z_dim] ~ N(0, 1) in the type of `in.real`. `which` = 1 draws the z of the second
  // style.
  at::Tensor z(const PhaseInput& in, int64_t which = 0) const;
  // Draws the classes of the pictures to make, as frequent as in the data: int64 [N], undefined
  // without labels.
  at::Tensor labels(const PhaseInput& in) const;
  // Draws the first layer that takes the second style, one number for the whole batch: int64 [].
  // With `probability` it is 1 to layers - 1, otherwise `layers`: then nothing is mixed.
  at::Tensor mixing_cutoff(const PhaseInput& in, double probability, int64_t layers) const;

 private:
  int64_t z_dim_;
  int64_t pictures_ = 0;    // sum of class_counts
  at::Tensor first_above_;  // running sums of class_counts, int64 [classes]
};

}  // namespace gantrain
