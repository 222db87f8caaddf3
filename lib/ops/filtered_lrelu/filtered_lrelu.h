// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <limits>
#include <numbers>

namespace gantrain {

// A leaky ReLU between two resamplings (Karras et al. 2021, sec. 3.2 and fig. 4b).
struct FilteredLrelu {
  // [taps], used along both axes, or [taps_y, taps_x]; float32 with a sum of 1; undefined: none.
  at::Tensor up_filter, down_filter;
  int64_t up = 1, down = 1;          // factors of both axes, from 1 on
  std::array<int64_t, 4> padding{};  // pixels x0, x1, y0, y1 after up-sampling; negative ones crop
  double gain = std::numbers::sqrt2;
  double slope = 0.2;                                      // below 0
  double clamp = std::numeric_limits<double>::infinity();  // to [-clamp, clamp], after the gain
};

// Adds b to x, puts up - 1 zeros after each pixel, pads, convolves with up_filter * up^2, applies
// clamp(gain * leaky_relu), convolves with down_filter and keeps every down-th pixel. x is [N, C,
// H, W], b [C] or undefined. Returns [N, C, h, w] of x's type with h = ((H * up + y0 + y1 + 1 -
// taps of up_filter) - taps of down_filter) / down + 1, rounded down. Sums are in float32 at least.
// Derivatives of any order exist; those by the filters do not. Where the device has a kernel for
// x's type, no plane of the higher rate is kept, but 2 bits for each of its pixels.
at::Tensor filtered_lrelu(const at::Tensor& x, const at::Tensor& b, const FilteredLrelu& how);

}  // namespace gantrain
