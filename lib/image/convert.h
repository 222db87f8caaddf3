// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "image/image.h"

namespace gantrain {

// The picture with 1 to 4 channels. Alpha that is dropped lays the picture over white, alpha that
// is added is opaque, colour that is dropped leaves luma (ITU-R BT.601).
Image with_channels(Image image, int64_t channels);

// Turned and mirrored as the EXIF orientation 1..8 asks for; other values leave it as it is.
Image oriented(Image image, int orientation);

// `image` in the middle of a canvas of the given size (at least as large), the rest white, or
// transparent where there is alpha.
Image padded(const Image& image, int64_t width, int64_t height);

}  // namespace gantrain
