// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gantrain {

struct Scale2d {
  int64_t x = 1, y = 1;
};

// Pixels added on each side; negative ones crop.
struct Padding2d {
  int64_t x0 = 0, x1 = 0, y0 = 0, y1 = 0;
};

// Up-sample, filter, down-sample (Karras et al. 2020a, app. B): up-1 zeros after each pixel, pad,
// FIR, keep every down-th pixel.
struct UpFirDn {
  Scale2d up, down;
  Padding2d padding;
  bool flip_filter = false;  // false: true convolution; true: correlation
  double gain = 1;           // of the whole result
};

// A filter ready for use, float32, sum 1: [taps] stays separable from 8 taps on, shorter ones
// become their outer product [taps, taps]. [1, 3, 3, 1] is StyleGAN2's.
at::Tensor setup_filter(const std::vector<double>& taps);
struct FilterSetup {
  bool normalise = true;
  bool flip = false;
  double gain = 1;
  int separable = -1;  // 1, 0; -1: by the number of taps
};
at::Tensor setup_filter(const at::Tensor& taps, const FilterSetup& how);

// x [N, C, H, W], f [h, w] or [taps] (used for both axes) or undefined (identity), f's type is cast
// to x's. Returns [N, C, (H*up + y0 + y1 - h + down) / down, ...]. Any order of derivative.
at::Tensor upfirdn2d(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how);

// The same with padding such that sizes are kept, multiplied or divided; how.padding is added to
// that padding.
at::Tensor filter2d(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how = {});
at::Tensor upsample2d(const at::Tensor& x, const at::Tensor& f, UpFirDn how = {{2, 2}});
at::Tensor downsample2d(const at::Tensor& x, const at::Tensor& f, UpFirDn how = {{1, 1}, {2, 2}});

}  // namespace gantrain
