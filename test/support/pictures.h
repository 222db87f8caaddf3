// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "image/image.h"
#include "util/error.h"

namespace gantrain {

// What a PNG file is made of, so that tests can write kinds that encode_png never writes.
struct PngSpec {
  uint32_t width = 0;
  uint32_t height = 0;
  int bit_depth = 8;
  int color_type = 0;  // PNG_COLOR_TYPE_*
  bool interlaced = false;
  std::vector<uint8_t> data;              // packed rows, 16 bits big-endian
  std::vector<uint8_t> palette = {};      // RGB triples
  std::vector<uint8_t> transparent = {};  // alpha of palette entries
  int transparent_grey = -1;
};
std::string write_png(const PngSpec& spec);

// A smooth picture with an edge: every codec has something to do, and nothing is left to chance.
Image test_picture(int64_t width, int64_t height, int64_t channels);

// A CMYK JPEG of one color, in Adobe's convention (255 is no ink).
std::string write_cmyk_jpeg(int64_t width, int64_t height, const std::vector<uint8_t>& cmyk);

// An EXIF block that holds this orientation.
std::string exif_block(int orientation, bool big_endian);

// A chunk of a PNG, with its checksum.
std::string png_chunk(const std::string& name, const std::string& content);

// `png` with a chunk before its pixels, or behind them.
std::string with_chunk(const std::string& png, const std::string& chunk, bool behind);

// `webp`, which holds its pixels alone, with a chunk EXIF of that content behind them.
std::string with_exif(const std::string& webp, const Size& size, const std::string& content);

// `jpeg` with an EXIF block that holds this orientation.
std::string with_orientation(const std::string& jpeg, int orientation, bool big_endian);

// Largest difference of two pictures of one shape; 256 if the shapes differ.
int largest_difference(const Image& a, const Image& b);

// The message of the UserError of that code that `action` throws; "" if it throws none.
std::string user_error(Exit code, const std::function<void()>& action);
std::string input_error(const std::function<void()>& action);  // of Exit::kInput

// Calls `decode` on every shorter beginning of `bytes`; how many of them were accepted.
size_t accepted_beginnings(std::string_view bytes,
                           const std::function<void(std::string_view)>& decode);

// Calls `decode` on `count` copies of `bytes` with a few bytes changed at random; how many of them
// were accepted. Anything but an answer or a UserError(kInput) escapes.
size_t accepted_damage(std::string_view bytes,
                       int count,
                       const std::function<void(std::string_view)>& decode);

}  // namespace gantrain
