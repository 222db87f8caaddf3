// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "core/philox.h"
#include "ops/gpu/number_types.h"

namespace gantrain::cuda_kernels {

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
