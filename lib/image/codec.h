// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "image/image.h"

namespace gantrain {

// Internal to lib/image: the decoders, which take bytes that begin with their format's signature
// and write over a picture, and the inner loops of resize().

// A file of more than 8 bits keeps 16 where `depth` is 16.
void decode_png(std::string_view bytes, const std::string& name, int64_t depth, Image& image);
// `last` is read where these bytes are not the whole file and have no orientation.
ImageInfo info_of_png(std::string_view bytes, const std::string& name, const ReadEnd& last = {});
void verify_png(std::string_view bytes, const std::string& name);  // memory for one row alone

void decode_jpeg(std::string_view bytes,
                 const std::string& name,
                 const NeededSize& needed,
                 Image& image);
ImageInfo info_of_jpeg(std::string_view bytes, const std::string& name);
void verify_jpeg(std::string_view bytes, const std::string& name);

void decode_webp(std::string_view bytes, const std::string& name, Image& image);
ImageInfo info_of_webp(std::string_view bytes, const std::string& name);

void decode_npy(std::string_view bytes, const std::string& name, Image& image);
ImageInfo info_of_npy(std::string_view bytes, const std::string& name);

// Baseline TIFF, and what microscopes and earth observation write (TIFF 6.0, its Technical Note 3):
// strips or tiles; stored, PackBits, LZW or Deflate, with differences; samples together or apart.
void decode_tiff(std::string_view bytes, const std::string& name, Image& image);
ImageInfo info_of_tiff(std::string_view bytes, const std::string& name);

// Turns floating-point values from 0 to 1 into 16 bits, rounded. Throws UserError(kInput) that
// names the file and the first that is NaN or out of range.
void put_fraction(double value, int64_t index, const std::string& name, uint16_t& out);

// Returns the EXIF orientation of a TIFF block, which "Exif\0\0" may precede: 1..8; 1 where it has
// none or an invalid one. Any bytes will do.
int exif_orientation(std::string_view block);

// The same of a JPEG file.
int jpeg_orientation(std::string_view bytes);

// Returns what becomes of a stored size: orientations from 5 to 8 exchange width and height.
ImageInfo turned(ImageInfo stored, int orientation);

// Throws UserError(kInput) where a picture is empty or larger than kMaxImageSide or kMaxImageBytes.
void check_size(const ImageInfo& info, const std::string& name, std::string_view format);

// Throws UserError(kInput) where a file of `bytes` bytes is too short for the picture that its
// header announces, if its format packs at best `pixels_per_byte`: a few bytes never take the
// memory of a large picture. Pictures below 2^20 pixels are not looked at.
struct Packing {
  size_t bytes = 0;
  int64_t pixels_per_byte = 0;
};
void check_packing(const ImageInfo& info,
                   const Packing& packing,
                   const std::string& name,
                   std::string_view format);

// The values of a picture of 16 bits, in memory that was allocated for bytes.
inline uint16_t* words_of(std::vector<uint8_t>& pixels) {
  return reinterpret_cast<uint16_t*>(pixels.data());
}
inline const uint16_t* words_of(const uint8_t* pixels) {
  return reinterpret_cast<const uint16_t*>(pixels);
}

// Whether the last channel is alpha.
template <class Picture>
bool has_alpha(const Picture& image) {
  return !image.stack && image.channels % 2 == 0;
}

// The bytes as the codecs' libraries take them.
inline const uint8_t* data_of(std::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

// Calls `work` with the number of channels, 1 to 4, as a constant of the type.
template <class Work>
void with_constant(int64_t channels, Work&& work) {
  switch (channels) {
    case 1:
      return work(std::integral_constant<int, 1>());
    case 2:
      return work(std::integral_constant<int, 2>());
    case 3:
      return work(std::integral_constant<int, 3>());
    default:
      return work(std::integral_constant<int, 4>());
  }
}

// Gives the picture that size; what the pixels are is not said.
void set_size(Image& image, const ImageInfo& info);

// Throws std::invalid_argument where the members of `image` contradict each other.
void check_image(const Image& image);

// Each output of resize() is the sum of a few neighbouring inputs, each times its weight, in whole
// numbers: 2^22 is a weight of 1, and every sum begins with a half, so that it is rounded when
// to_bytes() cuts it off. This is Pillow's arithmetic, bit for bit. The loops use AVX2 where there
// is.

// The inputs and weights along one axis: output i is the sum over k < count[i] of weight(i, k) *
// input(first[i] + k).
struct Taps {
  std::vector<int64_t> first;
  std::vector<int64_t> count;
  std::vector<int32_t> weights;  // [outputs, most]
  int64_t most = 0;              // the largest of `count`
  const int32_t* weights_of(int64_t i) const { return &weights[static_cast<size_t>(i * most)]; }
};

inline constexpr int kWeightBits = 22;

// out[x] = a half + sum over k of weights[k] * in[k * stride + x], for x < width.
void sum_rows(const uint8_t* in,
              int64_t stride,
              const int32_t* weights,
              int64_t count,
              int64_t width,
              int32_t* out);

// Sums along rows run over this many rows at once, whose numbers then lie side by side.
inline constexpr int64_t kRowsAtOnce = 8;
using EightRows = std::array<const uint8_t*, kRowsAtOnce>;

// out[x * 8 + r] = rows[r][x], for x < width.
void interleave(const EightRows& rows, int64_t width, int32_t* out);

// Sums along eight interleaved rows [pixels, channels, 8], into [taps.first.size(), channels, 8].
void sum_columns(const int32_t* in, int64_t channels, const Taps& taps, int32_t* out);

// Turns sums [width, 8] into bytes and takes the rows apart: out[r * stride + x].
void separate(const int32_t* in, int64_t width, int64_t stride, uint8_t* out);

// Turns sums into bytes, within 0 to 255.
void to_bytes(const int32_t* in, int64_t count, uint8_t* out);

}  // namespace gantrain
