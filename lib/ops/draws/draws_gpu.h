// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/philox.h"
#include "ops/gpu/launch.h"
#include "ops/gpu/number_types.h"

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

// Four draws from N(0, 1). The radius and the angle are computed in double precision, as on the
// host: single precision would differ from it in the fourth digit of rare draws.
GANTRAIN_BOTH void normals(const PhiloxBlock& block, float* out) {
  for (int j = 0; j < 4; j += 2) {
    const double radius = sqrt(-2 * log(1 - unit(block[static_cast<size_t>(j)])));
    double sine, cosine;
#ifdef __CUDA_ARCH__
    sincospi(2 * unit(block[static_cast<size_t>(j) + 1]), &sine, &cosine);
#else
    const double angle = 2 * 3.14159265358979323846 * unit(block[static_cast<size_t>(j) + 1]);
    sine = sin(angle);
    cosine = cos(angle);
#endif
    out[j] = static_cast<float>(radius * cosine);
    out[j + 1] = static_cast<float>(radius * sine);
  }
}

}  // namespace gantrain::cuda_kernels
