// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
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

// Decodes PNG, JPEG or WebP, told by the content. 16 bits are rounded to 8, palettes become RGB
// (RGBA with transparency), CMYK becomes RGB, and the EXIF orientation of a JPEG is applied. `name`
// is for messages. Throws UserError(kInput) "NAME: broken PNG: reason" for truncated or corrupt
// input; warnings of the JPEG decoder count as corruption.
Image decode_image(std::string_view bytes, const std::string& name);

// What a decoder may leave away: a JPEG can be decoded at 1/2, 1/4 or 1/8 of its size, as long as
// its sides, as they are seen, still have the pixels of `least`. The defaults ask for the whole.
struct NeededSize {
  Size least = {kMaxImageSide + 1, kMaxImageSide + 1};
  bool both = true;  // false: it is enough that one side has them
  // The central_part() of these proportions must begin and end between two pixels; 0x0: none.
  Size crop = {};
};

// Decodes so and writes over `image`, whose memory is used again. Only a JPEG is shrunk, and only
// by what divides both its sides.
void decode_image(std::string_view bytes,
                  const std::string& name,
                  const NeededSize& needed,
                  Image& image);

// Throws what decode_image() would throw; it is cheaper where the format allows it.
void verify_image(std::string_view bytes, const std::string& name);

// Reads the header alone: the size before any EXIF rotation. Throws UserError(kInput).
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

// Returns the picture with 1 to 4 channels: dropped alpha is laid over white, added alpha is
// opaque, and dropped colour leaves luma (ITU-R BT.601).
Image with_channels(Image image, int64_t channels);

// Rotates and mirrors the picture as the EXIF orientation 1..8 asks for.
Image oriented(Image image, int orientation);

// Puts `image` in the middle of a canvas at least as large, white, or transparent with alpha.
Image padded(const Image& image, int64_t width, int64_t height);

// A part of a picture, in whole pixels.
struct Part {
  int64_t left = 0;
  int64_t top = 0;
  Size size;

  bool operator==(const Part&) const = default;
};

// Returns the largest part with the proportions of `aspect` in a picture's middle. A side is
// rounded; where the middle lies between two pixels the part is the left or upper one.
Part central_part(const Size& picture, const Size& aspect);

inline constexpr int64_t kMaxWebpSide = 16383;  // pixels

struct AnimationOptions {
  double fps = 30;   // frames a second, at most 1000
  int quality = 90;  // 1 to 100; lossless at 100
  int loops = 0;     // how often the animation is played; 0: for ever
};

// Makes an animated WebP in memory. Frame i is shown from i / fps seconds on, rounded to a
// millisecond. Equal frames in a row are stored once.
class WebpAnimation {
 public:
  // Both sides are 1 to kMaxWebpSide pixels.
  WebpAnimation(int64_t width, int64_t height, const AnimationOptions& options);
  ~WebpAnimation();
  WebpAnimation(const WebpAnimation&) = delete;
  WebpAnimation& operator=(const WebpAnimation&) = delete;

  // Encodes a frame at once. It has 1 to 4 channels and the animation's size.
  void add(const Image& frame);
  // Returns the whole file. It is called once, after at least one frame.
  std::string finish();

 private:
  struct Encoder;
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace gantrain
