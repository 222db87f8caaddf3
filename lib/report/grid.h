// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "image/image.h"

namespace gantrain {

// Turns pictures into uint8 on the CPU, of the same shape. Floating-point values in [-1, 1] become
// floor(x * 127.5 + 128), clamped to 0..255, and NaN becomes black; uint8 stays as it is. The input
// may lie on any device.
at::Tensor to_bytes(const at::Tensor& images);

// Turns [C, H, W] into a picture; C = 1 to 4 means grey, grey and alpha, RGB, RGB and alpha.
Image to_image(const at::Tensor& picture);

// Puts pictures [N, C, H, W] side by side, row after row, `columns` in a row. Cells left over are
// black, or transparent where there is alpha.
Image tile(const at::Tensor& images, int64_t columns);

}  // namespace gantrain
