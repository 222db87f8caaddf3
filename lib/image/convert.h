// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "image/image.h"
#include "util/size.h"

namespace gantrain {

// Returns the picture with 1 to 4 channels. Where alpha is dropped, the picture is laid over white;
// where it is added, it is opaque. Where colour is dropped, luma remains (ITU-R BT.601).
Image with_channels(Image image, int64_t channels);

// Rotates and mirrors the picture as the EXIF orientation 1..8 asks for; other values leave it as
// it is.
Image oriented(Image image, int orientation);

// Puts `image` in the middle of a canvas of the given size, which must be at least as large. The
// rest is white, or transparent where there is alpha.
Image padded(const Image& image, int64_t width, int64_t height);

// A part of a picture, in whole pixels.
struct Part {
  int64_t left = 0;
  int64_t top = 0;
  Size size;

  bool operator==(const Part&) const = default;
};

// Returns the largest part of a picture of that size that has the proportions of `aspect`, in the
// picture's middle. A side that is no whole number is rounded, and where the middle lies between
// two pixels the part is the left or upper one.
Part central_part(const Size& picture, const Size& aspect);

}  // namespace gantrain
