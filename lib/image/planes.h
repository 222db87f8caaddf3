// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "image/image.h"

namespace gantrain {

// Writes the pixels [H, W, C] of a picture as planes [C, H, W], left and right exchanged if
// `flipped`. `out` has room for as many bytes as the picture has.
void copy_planes(const ImageView& image, bool flipped, uint8_t* out);

}  // namespace gantrain
