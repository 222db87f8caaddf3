// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "image/image.h"
#include "util/size.h"

namespace gantrain {

// Antialiased reconstruction filters with Pillow's conventions: the filter's support grows with the
// scale when a picture shrinks. Lanczos has 3 lobes; bicubic is Keys' filter with a = -0.5.
enum class Filter { kLanczos, kBicubic, kBilinear, kBox };
constexpr std::array<std::string_view, 4> names(Filter) {
  return {"lanczos", "bicubic", "bilinear", "box"};
}

// A part of a picture; its edges may lie between pixels.
struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

// Resamples the part `box` of `image`, or the whole image, to `size`. Pixels outside the box have
// no influence. Alpha is premultiplied while resampling.
Image resize(const ImageView& image, const Box& box, Size size, Filter filter);
Image resize(const ImageView& image, Size size, Filter filter);
Image resize(const Image& image, const Box& box, Size size, Filter filter);
Image resize(const Image& image, Size size, Filter filter);

// Writes the pixels [H, W, C] of a picture as planes [C, H, W], left and right exchanged if
// `flipped`. `out` has room for as many bytes as the picture has.
void copy_planes(const ImageView& image, bool flipped, uint8_t* out);

}  // namespace gantrain
