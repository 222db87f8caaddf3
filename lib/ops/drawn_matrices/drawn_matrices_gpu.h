// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/drawn_matrices/matrix_step.h"
#include "ops/gpu/launch.h"

namespace gantrain::cuda_kernels {

// What DrawnMatrices (drawn_matrices.h) says, on plain memory.
struct DrawnMatricesArguments {
  static constexpr int kMost = 8;

  struct Step {
    MatrixStep step;
    uint64_t numbers, decisions;
  };
  Step steps[kMost];
  int count;
  bool colour;
  const int64_t* key;  // on the device: seed, iteration
  uint64_t phase;
  int64_t first_sample, sample_stride, samples;
  double width, height, beyond;
  const double* p;   // on the device
  double* matrices;  // [samples, 9], or [samples, 16] of colour
  double* margins;   // [4]; null of colour
};

void drawn_matrices(const DrawnMatricesArguments& how, Stream stream);

}  // namespace gantrain::cuda_kernels
