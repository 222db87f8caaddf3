// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "util/size.h"

namespace gantrain {

// A picture in memory. Channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha (not
// premultiplied).
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;  // [height, width, channels], 0..255
};

// The pixels of a picture that lie in somebody else's memory.
struct ImageView {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  const uint8_t* pixels = nullptr;  // [height, width, channels], 0..255
};

// A look at `image`, which must stay where it is meanwhile.
inline ImageView view_of(const Image& image) {
  return {image.width, image.height, image.channels, image.pixels.data()};
}

// Size and channels that the header of a file states.
struct ImageInfo {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
};

// Larger pictures are refused before any memory is taken for them.
inline constexpr int64_t kMaxImageSide = 32768;
inline constexpr int64_t kMaxImageBytes = 400'000'000;  // decoded: 133 million pixels of RGB

// Decodes PNG, JPEG or WebP, which it recognises by the content. 16 bits are rounded to 8, palettes
// become RGB (RGBA with transparency), CMYK becomes RGB, and the EXIF orientation of a JPEG is
// applied. `name` is used only in messages. Throws UserError(kInput) "NAME: broken PNG: reason" for
// truncated or corrupt input; warnings of the JPEG decoder count as corruption.
Image decode_image(std::string_view bytes, const std::string& name);

// What a decoder may leave away: a JPEG can be decoded at 1/2, 1/4 or 1/8 of its size, which takes
// less time. The picture, turned as its EXIF orientation says, may become so small that its sides
// still have the pixels of `least`. The defaults ask for the whole picture.
struct NeededSize {
  Size least = {kMaxImageSide + 1, kMaxImageSide + 1};
  bool both = true;  // false: it is enough that one side has them
  // The largest part of these proportions (central_part.h) must begin and end between two pixels;
  // 0x0: no part is taken.
  Size crop = {};
};

// Decodes as the function above does and writes over `image`, whose memory is used again. Only a
// JPEG is shrunk, and only by what divides both its sides.
void decode_image(std::string_view bytes,
                  const std::string& name,
                  const NeededSize& needed,
                  Image& image);

// Throws what decode_image() would throw; it is cheaper where the format allows it.
void verify_image(std::string_view bytes, const std::string& name);

// Reads the header alone; the pixels may still be broken. The size is that of the stored picture,
// before any EXIF rotation. Throws UserError(kInput) as decode_image() does.
ImageInfo image_info(std::string_view bytes, const std::string& name);

// Whether a name ends in png, jpg, jpeg or webp, in any case.
bool is_image_name(std::string_view name);

// Whole files in memory. PNG and WebP take 1 to 4 channels, JPEG 1 or 3 (alpha is laid over white).
// Quality 1 to 100; WebP is lossless at 100.
std::string encode_png(const Image& image);
// The same with a level of zlib from 0, stored as it is, to 9, smallest. The same bytes each time.
std::string encode_png(const Image& image, int level);
std::string encode_jpeg(const Image& image, int quality = 95);
std::string encode_webp(const Image& image, int quality = 90);

}  // namespace gantrain
