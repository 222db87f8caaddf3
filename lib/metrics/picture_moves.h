// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Pictures [N, C, H, W] that were moved as an ideal generator would move them, to compare a
// generator's with (Karras et al. 2021, app. E). x points to the right and y down; rotations are
// about the picture's middle, and positive angles, in radians, turn counter-clockwise.
struct MovedPictures {
  at::Tensor pictures;  // [N, C, H, W]
  at::Tensor mask;      // [H, W]: 1 where they depend on what was inside the picture alone, else 0
};

// Shifts by whole pixels; zeros come in.
MovedPictures shifted_by_pixels(const at::Tensor& x, int64_t right, int64_t down);

// Shifts by fractions of pixels, with a windowed sinc of 6 taps (app. E.2).
MovedPictures shifted(const at::Tensor& x, double right, double down);

// Rotates, by a filter with the band limits of both pixel grids (app. E.3).
MovedPictures rotated(const at::Tensor& x, double angle);

// What `rotated` by `angle` does to the spectrum of pictures, without rotating them: applied to a
// generator's rotated picture, it makes it comparable with a rotated picture.
MovedPictures pseudo_rotated(const at::Tensor& x, double angle);

// The filter of a rotation on a grid `up` times as fine as the pixels, float64: [47, 47] for 4,
// [11, 11] for 1. Each of its up x up phases has the sum 1 / up^2.
at::Tensor rotation_filter(double angle, int64_t up);

}  // namespace gantrain
