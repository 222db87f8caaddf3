// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "image/image.h"

namespace gantrain {

// Internal to lib/image: the decoders, one for each format. Each takes bytes that begin with its
// format's signature, and writes over a picture whose memory is used again.

void decode_png(std::string_view bytes, const std::string& name, Image& image);
ImageInfo info_of_png(std::string_view bytes, const std::string& name);
void verify_png(std::string_view bytes, const std::string& name);  // memory for one row alone

void decode_jpeg(std::string_view bytes,
                 const std::string& name,
                 const NeededSize& needed,
                 Image& image);
ImageInfo info_of_jpeg(std::string_view bytes, const std::string& name);
void verify_jpeg(std::string_view bytes, const std::string& name);

void decode_webp(std::string_view bytes, const std::string& name, Image& image);
ImageInfo info_of_webp(std::string_view bytes, const std::string& name);

// Returns the EXIF orientation of a JPEG file, 1..8; 1 where it has none or an invalid one.
int jpeg_orientation(std::string_view bytes);

// Throws UserError(kInput) where a picture is empty or larger than kMaxImageSide or kMaxImageBytes.
void check_size(const ImageInfo& info, const std::string& name, std::string_view format);

// Throws UserError(kInput) where a file of `bytes` bytes is too short for the picture that its
// header announces, if its format packs at best `pixels_per_byte`. So a few bytes never take the
// memory of a large picture. Pictures below 2^20 pixels are small enough not to be looked at.
struct Packing {
  size_t bytes = 0;
  int64_t pixels_per_byte = 0;
};
void check_packing(const ImageInfo& info,
                   const Packing& packing,
                   const std::string& name,
                   std::string_view format);

// The bytes as the codecs' libraries take them.
inline const uint8_t* data_of(std::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

// Gives the picture that size; what the pixels are is not said.
void set_size(Image& image, const ImageInfo& info);

// Throws std::invalid_argument where the members of `image` contradict each other.
void check_image(const Image& image);

}  // namespace gantrain
