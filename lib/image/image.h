// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "util/size.h"

namespace gantrain {

inline constexpr int64_t kMaxChannels = 16;  // of a picture
inline constexpr int64_t kMostColors = 4;    // channels of grey or colour with alpha

// A picture in memory. Channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha (not
// premultiplied); up to kMaxChannels of a stack.
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  // [height, width, channels]: bytes from 0 to 255, or at a depth of 16 bits the bytes of uint16_t
  // from 0 to 65535 in the machine's order.
  std::vector<uint8_t> pixels = {};
  int64_t depth = 8;   // bits of a value: 8 or 16
  bool stack = false;  // its 2 or 4 to 16 channels are neither colours nor alpha
};

// The pixels of a picture that lie in somebody else's memory.
struct ImageView {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  const uint8_t* pixels = nullptr;  // as Image has them
  int64_t depth = 8;
  bool stack = false;

  // Of the pixels, in bytes.
  int64_t bytes() const { return width * height * channels * (depth / 8); }
};

// A look at `image`, which must stay where it is meanwhile.
inline ImageView view_of(const Image& image) {
  return {image.width, image.height, image.channels, image.pixels.data(), image.depth, image.stack};
}

// Size and channels that the header of a file states.
struct ImageInfo {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  int64_t depth = 8;   // 16 where the file has values of more than 8 bits
  bool stack = false;  // as Image has it
};

// Whether channels are those of a stack: 2 and 4 then have no alpha.
constexpr bool is_stack(int64_t channels) { return channels != 1 && channels != 3; }

// Larger pictures are refused before any memory is taken for them.
inline constexpr int64_t kMaxImageSide = 32768;
inline constexpr int64_t kMaxImageBytes = 400'000'000;  // decoded: 133 million pixels of RGB

// Decodes PNG, JPEG, WebP, TIFF or .npy, told by the content. 16 bits are rounded to 8, palettes
// become RGB (RGBA with transparency), CMYK becomes RGB, and the EXIF orientation is applied.
// `name` is for messages. Throws UserError(kInput) "NAME: broken PNG: reason" for truncated or
// corrupt input; warnings of the JPEG decoder count as corruption.
//
// Of .npy: [H, W], [H, W, C] or [C, H, W], whatever is shorter at the ends being C, and the last
// where both are alike; uint8, uint16, or floating point from 0 to 1. Of TIFF: pages of one size,
// one behind the other, each of 1 to 16 samples of 8 or 16 bits, or of floating point from 0 to 1.
// A NaN and a value out of range are refused.
Image decode_image(std::string_view bytes, const std::string& name);

// What a decoder may leave away: a JPEG can be decoded at 1/2, 1/4 or 1/8 of its size, as long as
// its sides, as they are seen, still have the pixels of `least`. The defaults ask for the whole.
// The picture gets `depth` bits whatever the file has (in_depth()).
struct NeededSize {
  Size least = {kMaxImageSide + 1, kMaxImageSide + 1};
  bool both = true;  // false: it is enough that one side has them
  // The central_part() of these proportions must begin and end between two pixels; 0x0: none.
  Size crop = {};
  int64_t depth = 8;
};

// Decodes so and writes over `image`, whose memory is used again. Only a JPEG is shrunk, and only
// by what divides both its sides.
void decode_image(std::string_view bytes,
                  const std::string& name,
                  const NeededSize& needed,
                  Image& image);

// Throws what decode_image() would throw; it is cheaper where the format allows it.
void verify_image(std::string_view bytes, const std::string& name);

// Reads the header alone: the size as decode_image() gives it, after any EXIF rotation. Throws
// UserError(kInput).
ImageInfo image_info(std::string_view bytes, const std::string& name);

// Returns the last bytes of a file.
using ReadEnd = std::function<std::string()>;

// Does the same from the first bytes of a file, and from the last ones where its format needs them.
// Throws UserError(kInput) also where these bytes do not tell.
ImageInfo image_info(std::string_view start, const ReadEnd& last, const std::string& name);

// Whether a name ends in png, jpg, jpeg or webp, in any case.
bool is_image_name(std::string_view name);
// Whether it ends in npy, tif or tiff.
bool is_stack_name(std::string_view name);

// Whole files in memory. PNG and WebP take 1 to 4 channels, JPEG 1 or 3 (alpha is laid over white).
// PNG keeps 16 bits, the others round them. Quality 1 to 100; WebP is lossless at 100.
std::string encode_png(const Image& image);
// The same with a level of zlib from 0, stored as it is, to 9, smallest. The same bytes each time.
std::string encode_png(const Image& image, int level);
std::string encode_jpeg(const Image& image, int quality = 95);
std::string encode_webp(const Image& image, int quality = 90);

// numpy's .npy, version 1.0: [H, W, C] of uint8 or uint16, of several pictures alike [N, H, W, C].
std::string encode_npy(const Image& image);
std::string encode_npy(const std::vector<Image>& images);

// What stands before the values in C order: the type as numpy says it, "<u2", and the shape.
std::string npy_header(const std::string& type, const std::vector<int64_t>& shape);

// What the header of a .npy says.
struct NpyForm {
  std::string type;            // "|u1", "<u2", ...
  bool by_columns = false;     // the first axis runs fastest
  std::vector<int64_t> shape;  // outermost first
  size_t start = 0;            // bytes before the values
  int64_t value_bytes = 0;

  int64_t values() const;
};

// Reads it from the first bytes of a content; they suffice where nothing is thrown. Throws
// UserError(kInput) that names what is no .npy of numbers that pictures are made of.
NpyForm npy_form(std::string_view bytes, const std::string& name);

// Returns the picture with 8 or 16 bits: v becomes 257 v, or v / 257, rounded.
Image in_depth(Image image, int64_t depth);

// Returns the picture with 1 to 4 channels: dropped alpha is laid over white, added alpha is
// opaque, and dropped colour leaves luma (ITU-R BT.601). Throws std::invalid_argument for a stack
// that has others.
Image with_channels(Image image, int64_t channels);

// Returns these channels of a picture: one as grey, two as red and green, three as RGB.
Image only_channels(const ImageView& image, const std::vector<int64_t>& channels);

// Returns a picture that can be shown: 8 bits, of a stack the first three channels, or the first
// of two.
Image to_show(Image image);

// Returns the pictures' channels one behind the other, as a stack unless it is grey or RGB. Sizes
// and depths are alike.
Image stacked(const std::vector<Image>& parts);

// Rotates and mirrors the picture as the EXIF orientation 1..8 asks for.
Image oriented(Image image, int orientation);

// Puts `image` in the middle of a canvas at least as large, white (the largest value, of stacks
// too), or transparent with alpha.
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
