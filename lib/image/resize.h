// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "image/image.h"
#include "util/size.h"

namespace gantrain {

// Antialiased filters with Pillow's conventions: the support grows with the scale when a picture
// shrinks. Lanczos has 3 lobes; bicubic is Keys' filter with a = -0.5.
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

// Resamples the part `box`, outside of which pixels have no influence, or the whole image to
// `size`. Alpha is premultiplied while resampling.
Image resize(const ImageView& image, const Box& box, Size size, Filter filter);
Image resize(const ImageView& image, Size size, Filter filter);
Image resize(const Image& image, const Box& box, Size size, Filter filter);
Image resize(const Image& image, Size size, Filter filter);

// Write pixels [H, W, C] as planes [C, H, W], left and right exchanged if `flipped`, in the depth
// of `out`, as in_depth() changes it.
void copy_planes(const ImageView& image, bool flipped, uint16_t* out);
void copy_planes(const ImageView& image, bool flipped, uint8_t* out);

}  // namespace gantrain
