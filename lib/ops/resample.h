// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/device.h"
#include "ops/upfirdn2d/upfirdn2d.h"

namespace gantrain {

// Resampling by two as progressive growing does it (Karras et al. 2018a, fig. 2), for x [N, C, H,
// W]. All functions are differentiable any number of times.

// Repeats each pixel four times: [N, C, 2H, 2W].
at::Tensor nearest_up(const at::Tensor& x);
// Averages 2x2 pixels: [N, C, H/2, W/2]; H and W are even.
at::Tensor box_down(const at::Tensor& x);
// Blurs with [1, 2, 1] x [1, 2, 1] / 16, with zeros outside the picture. Bilinear resampling
// (Karras et al. 2019, sec. 2) is nearest_up, then blur; or blur, then box_down.
at::Tensor blur(const at::Tensor& x);

// conv2d_up returns the 3x3 convolution of nearest_up(x), and conv2d_down returns box_down of the
// 3x3 convolution of x, both with padding 1 and weight [O, I, 3, 3]. For large pictures both
// compute one 4x4 convolution of stride 2, which takes 4/9 of the operations.
at::Tensor conv2d_up(const at::Tensor& x, const at::Tensor& weight);
at::Tensor conv2d_down(const at::Tensor& x, const at::Tensor& weight);

// Returns alpha * x + (1 - alpha) * nearest_up(box_down(x)), alpha in [0, 1]. Real pictures are
// shown so while a level fades in: they then hold no more detail than the generated ones.
at::Tensor fade_reals(const at::Tensor& x, const DeviceNumber& alpha);

// Samples x [N, C, H, W] bilinearly at the positions grid [N, h, w, 2], whose coordinates (x, y)
// lie in [-1, 1] (align_corners false); x counts as 0 outside. Returns [N, C, h, w]. Unlike
// LibTorch's own function it is twice differentiable in x, which R1 through a geometric
// augmentation needs. The grid gets no gradient. Where algorithms have to be deterministic, the
// sums of its derivative have an order that is the same at every call.
at::Tensor grid_sample(const at::Tensor& x, const at::Tensor& grid);

// What the corners of a picture that is resized are: corners of pixels, or the pixels' middles.
enum class Corners { kOfPixels, kMiddles };
// Resizes x [N, C, H, W] to height x width, bilinearly and without antialiasing, as torch does with
// align_corners false (kOfPixels) or true, at the places that torch computes in float32: float64
// computes the same function. Once differentiable. Sums have the same order at every call, on every
// device; autocast changes no type.
at::Tensor resized_bilinear(const at::Tensor& x, int64_t height, int64_t width, Corners corners);
// The same as products with matrices: what it computes on other devices than a CPU, and where
// algorithms have to be deterministic.
at::Tensor resized_by_products(const at::Tensor& x, int64_t height, int64_t width, Corners corners);

// Returns x [N, C, H, W] with so many pixels more on each side, mirrored at its border pixels; at
// most W - 1 and H - 1.
at::Tensor mirrored(const at::Tensor& x, const Padding2d& more);

}  // namespace gantrain
