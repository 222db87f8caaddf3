// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>

#include "ops/upfirdn2d/upfirdn2d.h"

namespace gantrain {

// The low-pass filter of the symlet with 6 vanishing moments, normalised to sum 1, which geometric
// resampling uses (Karras et al. 2020b, app. B).
std::array<double, 12> sym6_lowpass();

constexpr size_t kOctaveBands = 4;
constexpr size_t kOctaveBandTaps = 43;

// Zero-phase octave bands, low to high, from the symlet with 2 vanishing moments (app. B): the
// bands add up to a unit impulse at the centre tap, so equal gains of 1 change nothing.
std::array<std::array<double, kOctaveBandTaps>, kOctaveBands> octave_band_filters();

// These filters on the device and in the type of `like`. A process copies them there at
// the first call and then keeps them, so that later calls neither copy nor wait. From any thread;
// nobody may write into them.
at::Tensor sym6_lowpass_like(const at::Tensor& like);         // [12]
at::Tensor octave_band_filters_like(const at::Tensor& like);  // [kOctaveBands, kOctaveBandTaps]

// x [N, C, H, W], rows [H, h] or [N, 1, H, h], columns [W, w] or [N, 1, W, w] -> [N, C, h, w]:
// rows' x columns. Any number of derivatives with respect to x; the matrices get none. Always in
// x's type, whatever autocast says.
at::Tensor on_both_axes(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& columns);

// [1, 1, length, length]: what an operator on rows of pixels makes of it is its matrix.
at::Tensor unit_matrix(int64_t length, const at::TensorOptions& options);

// How a fixed filter is applied: by upfirdn2d, or as one matrix for each axis. On a CPU the
// matrices are 50 times faster (pictures of 32 pixels), and no slower at 256; a GPU's upfirdn2d
// needs none.
enum class FilterRoute { kFilter, kMatrices };
FilterRoute usual_route(const at::Tensor& x);

// Steps of resampling without aliasing or blur by the symlet filter sym6 (Karras et al. 2020b, app.
// B). `doubled` mirrors x [N, C, H, W] beyond its borders and then doubles the resolution,
// [N, C, 2 (H + y0 + y1), 2 (W + x0 + x1)]; `halved` halves it again by the filter turned round and
// crops, [N, C, 2 (h + 2 kSym6Cropped), 2 (w + 2 kSym6Cropped)] -> [N, C, h, w]. Each margin is
// less than the picture.
constexpr int64_t kSym6Cropped = 3;  // half the filter's taps, in pixels of the lower resolution
at::Tensor sym6_doubled(const at::Tensor& x, const Padding2d& margins, FilterRoute route);
at::Tensor sym6_halved(const at::Tensor& x, FilterRoute route);

// sym6_doubled for margins that only x's device knows: [4] float64 there, x0, x1, y0, y1, whole
// numbers from 0 to one less than the picture's size. The result has the size that belongs to the
// largest margins there can be, [N, C, 2 (3 H - 2), 2 (3 W - 2)]; it is sym6_doubled's in the place
// that this has in a larger picture, and 0 around it.
at::Tensor sym6_doubled_within(const at::Tensor& x, const at::Tensor& margins);

}  // namespace gantrain
