// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gantrain {

// How a file stores its picture, as far as training does not see it any more: everything becomes 8
// bits a channel, grey or RGB.
struct PictureForm {
  std::string format = "raw";  // "PNG", "JPEG", "WebP"; "raw" for records of pixels
  int64_t bits = 8;            // a channel
  bool grey = false;
  bool palette = false;
  bool alpha = false;
  bool cmyk = false;
};

// Reads the header of a picture that image_info() accepts. Numbers that a broken header lacks are
// taken for the usual ones.
PictureForm form_of(std::string_view bytes);

}  // namespace gantrain
