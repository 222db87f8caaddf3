// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "image/image.h"

namespace gantrain {

// 8 bit: floating point in [-1, 1] as floor(x * 127.5 + 128), clamped to 0..255, NaN black; uint8
// as it is. Any device; the result is uint8 on the CPU, same shape.
at::Tensor to_bytes(const at::Tensor& images);

// One picture of [C, H, W], C = 1 to 4: grey, grey and alpha, RGB, RGB and alpha.
Image to_image(const at::Tensor& picture);

// Pictures [N, C, H, W] side by side, row after row, `columns` in a row; cells left over are black
// (clear where there is alpha).
Image tile(const at::Tensor& images, int64_t columns);

}  // namespace gantrain
