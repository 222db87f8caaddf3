// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "gan/recipe.h"
#include "recipes/stylegan2/generator.h"

namespace gantrain::stylegan2 {

// The random numbers of a phase of one iteration, each for the batch's own samples alone and the
// same whatever rank or micro-batch a sample is in. Phases share nothing.
class PhaseDraws {
 public:
  // class_counts: pictures of each class; empty: no labels.
  PhaseDraws(uint64_t seed, int64_t z_dim, const std::vector<int64_t>& class_counts);

  at::Tensor z(const Batch& b, int64_t phase, int64_t which) const;  // [N, z_dim] float32, CPU
  // Labels of the pictures that are to be made, distributed as the data's: int64 [N], or undefined.
  at::Tensor labels(const Batch& b, int64_t phase, at::Device device) const;
  // The first layer that takes the second style, one for the whole batch: 1 to layers - 1 with
  // that probability, else `layers`.
  int64_t mixing_cutoff(int64_t iteration, int64_t phase, double probability, int64_t layers) const;
  // Noise inputs N(0, 1) of each layer and sample, in the given type and on its device.
  NoiseInputs noise(const Batch& b, int64_t phase, const at::TensorOptions& like) const;
  // The direction y of a path length, [N, shape...] float32, CPU.
  at::Tensor picture_noise(const Batch& b, int64_t phase, at::IntArrayRef shape) const;

 private:
  Stream stream(const char* purpose, int64_t iteration, int64_t phase) const;

  uint64_t seed_;
  int64_t z_dim_;
  std::vector<int64_t> first_above_;  // running sums of class_counts
};

}  // namespace gantrain::stylegan2
