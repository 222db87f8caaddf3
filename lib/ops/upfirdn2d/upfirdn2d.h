// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gantrain {

struct Scale2d {
  int64_t x = 1, y = 1;
};

// Pixels that are added on each side; negative numbers crop.
struct Padding2d {
  int64_t x0 = 0, x1 = 0, y0 = 0, y1 = 0;
};

// How upfirdn2d() resamples (Karras et al. 2020a, app. B): it puts up - 1 zeros after each pixel,
// pads, applies the FIR filter and keeps every down-th pixel.
struct UpFirDn {
  Scale2d up, down;
  Padding2d padding;
  bool flip_filter = false;  // false: convolution, which mirrors the filter; true: correlation
  double gain = 1;           // factor of the result
};

// The size of the result for x [.., H, W] and a filter [.., h, w].
struct Size2d {
  int64_t x, y;
};
Size2d resampled_size(at::IntArrayRef x, at::IntArrayRef f, const UpFirDn& how);

// Makes a float32 filter with sum 1 out of its taps. With 8 taps or more it stays separable,
// [taps]; with fewer it is the outer product [taps, taps]. StyleGAN2 has the taps 1, 3, 3, 1.
at::Tensor setup_filter(const std::vector<double>& taps);
struct FilterSetup {
  bool normalise = true;
  bool flip = false;
  double gain = 1;
  int separable = -1;  // 1: yes, 0: no, -1: by the number of taps
};
at::Tensor setup_filter(const at::Tensor& taps, const FilterSetup& how);

// Resamples x [N, C, H, W] as `how` says. f is [h, w], or [taps] for a filter used along both axes,
// or undefined (identity); it is cast to x's type, or to float32 if that is a half type. Returns
// [N, C, (H * up + y0 + y1 - h + down) / down, ...]. Derivatives of any order exist.
at::Tensor upfirdn2d(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how);

// x for others to use, and upfirdn2d() of it with f [h, w]. Where both are differentiated and the
// device has a kernel for it, one pass filters the gradient of the second and adds that of the
// first. Derivatives of any order exist.
struct Filtered {
  at::Tensor x, filtered;
};
Filtered upfirdn2d_beside(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how);

// `padding` and what keeps the filter f centred where the size is multiplied or divided by `by`.
Padding2d centred_up(Padding2d padding, const at::Tensor& f, const Scale2d& by);
Padding2d centred_down(Padding2d padding, const at::Tensor& f, const Scale2d& by);

// The same with padding that keeps the size (filter2d), multiplies it by `up` (upsample2d) or
// divides it by `down` (downsample2d). how.padding is added to that padding. upsample2d also
// multiplies the gain by up.x * up.y.
at::Tensor filter2d(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how = {});
at::Tensor upsample2d(const at::Tensor& x, const at::Tensor& f, UpFirDn how = {{2, 2}});
at::Tensor downsample2d(const at::Tensor& x, const at::Tensor& f, UpFirDn how = {{1, 1}, {2, 2}});

}  // namespace gantrain
