// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "gan/recipe.h"

namespace gantrain {

// The random numbers of a phase of one iteration, each for the batch's own samples alone and the
// same whatever rank or micro-batch a sample is in. Phases share nothing.
class PhaseDraws {
 public:
  // class_counts: pictures of each class; empty: no labels.
  PhaseDraws(uint64_t seed, int64_t z_dim, const std::vector<int64_t>& class_counts);

  // [N, z_dim] float32, CPU; which = 1: the second style's.
  at::Tensor z(const Batch& b, int64_t phase, int64_t which = 0) const;
  // Labels of the pictures that are to be made, distributed as the data's: int64 [N], or undefined.
  at::Tensor labels(const Batch& b, int64_t phase, at::Device device) const;
  // The first layer that takes the second style, one for the whole batch: 1 to layers - 1 with
  // that probability, else `layers`.
  int64_t mixing_cutoff(int64_t iteration, int64_t phase, double probability, int64_t layers) const;

 protected:
  Stream stream(const char* purpose, int64_t iteration, int64_t phase) const;

  uint64_t seed_;

 private:
  int64_t z_dim_;
  std::vector<int64_t> first_above_;  // running sums of class_counts
};

}  // namespace gantrain
