// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "fuzz/fuzz_input.h"
#include "image/image.h"

namespace gantrain {

// Reads one input in all the ways in which data sets read pictures, and holds their answers against
// each other.
inline void read_picture(std::string_view bytes) {
  const std::string name = "some file";
  Image image;
  const bool decoded = accepts(name, [&] { image = decode_image(bytes, name); });
  const bool verified = accepts(name, [&] { verify_image(bytes, name); });
  require(decoded == verified, "verify_image() and decode_image() disagree");
  Image small;
  accepts(name, [&] { decode_image(bytes, name, {.least = {16, 16}}, small); });
  ImageInfo info;
  const bool known = accepts(name, [&] { info = image_info(bytes, name); });
  if (!decoded) return;
  require(known, "decode_image() accepts what image_info() refuses");
  require(image.channels == info.channels, "another number of channels than announced");
  require(image.width == info.width && image.height == info.height, "another size than announced");
  require(image.pixels.size() == static_cast<size_t>(image.width * image.height * image.channels),
          "pixels do not fill the picture");
  Image wide;
  require(accepts(name, [&] { decode_image(bytes, name, {.depth = 16}, wide); }),
          "16 bits are refused where 8 are not");
  require(wide.pixels.size() == 2 * image.pixels.size(), "16 bits do not fill the picture");
  require(in_depth(wide, 8).pixels == image.pixels, "16 bits round to another picture");
}

}  // namespace gantrain
