// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensors.h"
#include "image/image.h"

namespace gantrain {

// Turns pictures on any device into whole numbers on the CPU: to_bytes(), or for a depth of 16 bits
// uint16, floor(x * 32767.5 + 32768) of values in [-1, 1], clamped to 0..65535; NaN becomes black.
at::Tensor to_depth(const at::Tensor& images, int64_t depth);

// Turns [C, H, W] into a picture, of 16 bits where it is uint16; C = 1 to 4 means grey, grey and
// alpha, RGB, RGB and alpha, more a stack.
Image to_image(const at::Tensor& picture);

// Reads which channels are shown: "auto", or up to three from 0 on, "0,3,5". Empty for auto. Throws
// UserError(kUsage) that names `where` and what is allowed.
std::vector<int64_t> read_channels(const std::string& where,
                                   const std::string& text,
                                   int64_t channels);

// Returns these channels of pictures [..., C, H, W], two with a third of zeros, none: all of up to
// 4, else the first three.
at::Tensor shown_channels(const at::Tensor& images, const std::vector<int64_t>& channels);

// Puts pictures [N, C, H, W] side by side, row after row, `columns` in a row: of more than 4
// channels the first three. Cells left over are black, or transparent where there is alpha. uint16
// pictures make one of 16 bits.
Image tile(const at::Tensor& images, int64_t columns);

// The same with a caption below each picture. Small pictures are enlarged, each pixel to a square,
// so that 13 characters fit; of a longer caption the end is seen.
Image captioned_tile(const at::Tensor& images,
                     const std::vector<std::string>& captions,
                     int64_t columns);

// What a line of caption takes at the smallest size, in pixels: its height, and the width of a
// character.
inline constexpr int64_t kCaptionHeight = 11, kCaptionWidth = 6;

// Writes a line in white on black over the pixels from (x, y) on that are `width` wide and `scale`
// times kCaptionHeight high. Letters are capitals; of a text that is too long the end is seen, as
// of paths. Whatever lies outside the picture is left out.
void draw_caption(
    Image& image, int64_t x, int64_t y, int64_t width, const std::string& text, int64_t scale = 1);

}  // namespace gantrain
