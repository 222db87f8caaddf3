// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/gpu/launch.h"

namespace gantrain::cuda_kernels {

// What AffineWarp (affine_warp.h) says, on plain memory. Tensors are float32 or float64 and
// contiguous.
struct AffineWarpArguments {
  static constexpr int kTaps = 12;

  Type type;
  int64_t samples, channels;
  int height, width;  // of the pictures
  double filter[kTaps];
  const double* transforms;  // on the device: [samples, 9]
  const double* margins;     // on the device: x0, x1, y0, y1
  const void* in;
  void* out;

  // The size of what is sampled.
  int out_height() const { return 2 * height + kTaps; }
  int out_width() const { return 2 * width + kTaps; }
};

// in [samples, channels, height, width] -> out [samples, channels, out_height, out_width].
void affine_warp(const AffineWarpArguments& how, Stream stream);
// The adjoint: in [samples, channels, out_height, out_width] -> out [.., height, width].
void affine_warp_adjoint(const AffineWarpArguments& how, Stream stream);

}  // namespace gantrain::cuda_kernels
