// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace gantrain {

// What affine_warp() does to the samples of a batch.
struct AffineWarp {
  static constexpr int64_t kTaps = 12;
  // Pixels by which the result is larger than the pictures at each side, for a filter that brings
  // it back to their resolution.
  static constexpr int64_t kCropped = kTaps / 4;

  std::array<double, kTaps> filter;  // low-pass with sum 1, which doubles the resolution
  at::Tensor transforms;  // float64 [N, 9]: 3 x 3 matrices from output to input pixels, row by row,
                          // with the pictures' centre as origin; the last row is not read
  at::Tensor margins;     // float64 [4]: x0, x1, y0, y1, pixels to mirror at each border, whole
                          // numbers from 0 to one less than the picture's size
};

// Whether kernels exist for affine_warp() of x, float32 or float64, and are in use.
bool has_affine_warp(const at::Tensor& x);

// x [N, C, H, W] -> [N, C, 2 (H + 2 kCropped), 2 (W + 2 kCropped)]: mirrors each picture by the
// margins beyond its borders, doubles its resolution by the filter, is 0 beyond that, and samples
// it bilinearly at twice the output's resolution (Karras et al. 2020b, app. B). Nothing but the
// result is stored: each of its numbers is computed from at most 7 x 7 pixels of x. Any number of
// derivatives with respect to x, each of which is summed in an order that never changes; always in
// x's type, whatever autocast says. x must be one for which has_affine_warp() holds.
at::Tensor affine_warp(const at::Tensor& x, const AffineWarp& how);

}  // namespace gantrain
