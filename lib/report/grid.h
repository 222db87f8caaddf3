// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/tensors.h"
#include "image/image.h"

namespace gantrain {

// Turns [C, H, W] into a picture; C = 1 to 4 means grey, grey and alpha, RGB, RGB and alpha.
Image to_image(const at::Tensor& picture);

// Puts pictures [N, C, H, W] side by side, row after row, `columns` in a row. Cells left over are
// black, or transparent where there is alpha.
Image tile(const at::Tensor& images, int64_t columns);

}  // namespace gantrain
