// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "gan/phase.h"

namespace gantrain {

// What generated pictures are drawn from: latents, classes and the cuts of style mixing. Each
// sample of the global batch has its own, whatever rank or micro-batch it is in. Everything is
// drawn on the key's device and nothing is waited for.
class Latents {
 public:
  // class_counts: real pictures of each class; empty: no labels.
  Latents(int64_t z_dim, const std::vector<int64_t>& class_counts, at::Device device);

  // z [N, z_dim] ~ N(0, 1), of the type of `in.real`; `which` = 1: for the second style.
  at::Tensor z(const PhaseInput& in, int64_t which = 0) const;
  // Classes of the pictures that are to be made, with the data's frequencies: int64 [N], undefined
  // without labels.
  at::Tensor labels(const PhaseInput& in) const;
  // The first layer that takes the second style, one for the whole batch: int64 [], with that
  // probability 1 to layers - 1, else `layers`.
  at::Tensor mixing_cutoff(const PhaseInput& in, double probability, int64_t layers) const;

 private:
  int64_t z_dim_;
  int64_t pictures_ = 0;    // sum of class_counts
  at::Tensor first_above_;  // running sums of class_counts, int64 [classes]
};

}  // namespace gantrain
