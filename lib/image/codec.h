// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "image/image.h"

namespace gantrain {

// Inside of module image: one decoder a format, each given bytes that carry its signature.

Image decode_png(std::string_view bytes, const std::string& name);
ImageInfo png_info(std::string_view bytes, const std::string& name);

Image decode_jpeg(std::string_view bytes, const std::string& name);
ImageInfo jpeg_info(std::string_view bytes, const std::string& name);
void verify_jpeg(std::string_view bytes, const std::string& name);

Image decode_webp(std::string_view bytes, const std::string& name);
ImageInfo webp_info(std::string_view bytes, const std::string& name);

// EXIF orientation of a JPEG file, 1..8; 1 when there is none or it makes no sense.
int jpeg_orientation(std::string_view bytes);

// Throws UserError(kInput) when a picture is empty or larger than kMaxImageSide, kMaxImagePixels.
void check_size(int64_t width, int64_t height, const std::string& name, std::string_view format);

// Throws std::invalid_argument when the members of `image` contradict each other.
void check_image(const Image& image);

}  // namespace gantrain
