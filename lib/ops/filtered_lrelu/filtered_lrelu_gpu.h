// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/gpu/launch.h"

namespace gantrain::cuda_kernels {

// One of the two filters of filtered_lrelu.h.
struct PlaneFilter {
  const float* taps;  // [taps_x], used along both axes, or [taps_y, taps_x]; null: 1
  int taps_y, taps_x;
  bool separable;
};

// A filtered leaky ReLU of float32, float16 or bfloat16, or one with slopes that are read
// (ops/device_kernels.h), of contiguous maps [samples, channels, y, x].
struct FilteredLreluArguments {
  Type type;
  const void* x;
  const void* bias;  // [channels] of x's type, or null
  void* out;
  int64_t samples, channels;
  int in_h, in_w, out_h, out_w;
  int up, down, pad_y, pad_x;
  PlaneFilter up_filter, down_filter;
  bool flip;                 // filters correlate
  float gain, slope, clamp;  // up^2 is in the gain

  // 2 bits for each sample of the higher rate, [samples * channels, rows, slope_columns() / 4]:
  // whether it is at most 0, whether it was clamped. Null: none are kept, or all slopes are 1.
  uint8_t* slopes;
  bool reads_slopes;
  int slope_rows, slope_y, slope_x;  // of those that are read; columns: read_columns
  int read_columns;

  // The samples of the higher rate that the result is made of, and how many of a row are kept.
  GANTRAIN_BOTH int mid_h() const { return (out_h - 1) * down + down_filter.taps_y; }
  GANTRAIN_BOTH int mid_w() const { return (out_w - 1) * down + down_filter.taps_x; }
  GANTRAIN_BOTH int slope_columns() const { return (mid_w() + 3) / 4 * 4; }
};

// For factors and filters as FusedKernels::filtered_lrelu takes them.
void filtered_lrelu(const FilteredLreluArguments& how, Stream stream);

// Whether these arguments get the body whose factors and taps are known when it is compiled.
bool has_known_shape(const FilteredLreluArguments& how);

}  // namespace gantrain::cuda_kernels
