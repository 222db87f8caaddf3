// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/drawn_matrices/matrix_step.h"
#include "ops/draws/draws.h"

namespace gantrain {

// A step and the hashes of the purposes of its draws: of its numbers, and of what decides where it
// is applied, uniform.
struct DrawnStep {
  MatrixStep step;
  uint64_t numbers, decisions;
};

// The steps of one batch's matrices, at most kMost, and whose draws they take.
struct DrawnMatrices {
  static constexpr size_t kMost = 8;

  std::vector<DrawnStep> steps;  // all of the plane, or all of colour
  bool colour = false;
  DrawKey key;
  Samples samples;
  // Of the plane: the pictures, and pixels that are seen beyond them (margins_for()).
  double width = 0, height = 0, beyond = 0;
};

// Each sample's product of its steps' matrices, and what all samples need of mirrored borders.
struct Matrices {
  at::Tensor each;     // float64 [N, 9], or [N, 16] of colour
  at::Tensor margins;  // float64 [4]: the largest of the whole global batch, whole numbers from 0
                       // to one less than the pictures' size; undefined of colour
};

// Whether p's device has a kernel for them, which is in use.
bool has_drawn_matrices(const at::Tensor& p);

// Draws and multiplies in one kernel, for a strength p [] float64: of the plane before * next, of
// colour next * before. The draws are those of uniform() and normal() (draws.h). No derivatives.
Matrices drawn_matrices(const at::Tensor& p, const DrawnMatrices& how);

}  // namespace gantrain
