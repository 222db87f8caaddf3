// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/gpu/launch.h"

namespace gantrain::cuda_kernels {

enum class Drawn { kNormal, kUniform, kBits };  // as Distribution (ops/device_kernels.h)

// What DrawNumbers (ops/device_kernels.h) says, on plain memory.
struct DrawArguments {
  const int64_t* key;  // on the device: seed, iteration
  uint64_t phase;
  uint64_t purpose;
  int64_t first_sample, sample_stride, samples;
  int64_t each;  // numbers of a sample
  Drawn kind;
  void* out;  // [samples, each]: int64 for kBits, else float
};

// Draws the numbers of core/philox.h.
void draw(const DrawArguments& how, Stream stream);

}  // namespace gantrain::cuda_kernels
