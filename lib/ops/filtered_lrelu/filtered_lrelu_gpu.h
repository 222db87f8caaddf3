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

// Numbers from one to the next along each axis of maps.
struct MapStrides {
  int64_t sample, channel, y, x;
};

inline constexpr int kSlopeLanes = 8;  // channels whose slopes lie side by side

// A filtered leaky ReLU of float32, float16 or bfloat16, or one with slopes that are read
// (ops/device_kernels.h), of maps [samples, channels, y, x].
struct FilteredLreluArguments {
  Type type;
  const void* x;
  const void* bias;  // [channels] of x's type, or null
  void* out;
  MapStrides x_strides, out_strides;
  int64_t samples, channels;
  int in_h, in_w, out_h, out_w;
  int up, down, pad_y, pad_x;
  PlaneFilter up_filter, down_filter;
  bool flip;                 // filters correlate
  float gain, slope, clamp;  // up^2 is in the gain

  // Whether strips compute this, which has_strips() must allow, or tiles, for which maps must be
  // contiguous.
  bool strips;

  // 2 bits for each sample of the higher rate: whether it is at most 0, whether it was clamped.
  // Null: none are kept, or all slopes are 1. Of tiles they are [samples * channels, rows,
  // slope_columns() / 4], of strips [samples * slope_groups(), slope_quads(), columns, kSlopeLanes]
  // with four rows in a byte.
  uint8_t* slopes;
  bool reads_slopes;
  int slope_rows, slope_y, slope_x;  // of those that are read; columns: read_columns
  int read_columns;

  // The samples of the higher rate that the result is made of, and how many of a row are kept.
  GANTRAIN_BOTH int mid_h() const { return (out_h - 1) * down + down_filter.taps_y; }
  GANTRAIN_BOTH int mid_w() const { return (out_w - 1) * down + down_filter.taps_x; }
  GANTRAIN_BOTH int slope_columns() const { return (mid_w() + 3) / 4 * 4; }
  GANTRAIN_BOTH int slope_quads() const { return (mid_h() + 3) / 4; }
  int64_t slope_groups() const { return blocks_for(channels, kSlopeLanes); }
};

// For factors and filters as FusedKernels::filtered_lrelu takes them.
void filtered_lrelu(const FilteredLreluArguments& how, Stream stream);

// Whether strips can compute this: they know StyleGAN3's separable filters, factors and pads, and
// those of the derivatives. Where they can, so they can with the derivative's arguments.
bool has_strips(const FilteredLreluArguments& how);
void filtered_lrelu_strips(const FilteredLreluArguments& how, Stream stream);

}  // namespace gantrain::cuda_kernels
