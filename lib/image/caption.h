// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "image/image.h"

namespace gantrain {

// What a line of caption takes at the smallest size, in pixels: its height, and the width of a
// character.
inline constexpr int64_t kCaptionHeight = 11, kCaptionWidth = 6;

// Writes a line in white on black over the pixels from (x, y) on that are `width` wide and `scale`
// times kCaptionHeight high. Letters are capitals; of a text that is too long the end is seen, as
// of paths. Whatever lies outside the picture is left out.
void draw_caption(
    Image& image, int64_t x, int64_t y, int64_t width, const std::string& text, int64_t scale = 1);

}  // namespace gantrain
