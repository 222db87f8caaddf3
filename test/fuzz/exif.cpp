// SPDX-License-Identifier: Apache-2.0
// The EXIF orientation: an input as a whole JPEG, and as the TIFF block in one.
#include <algorithm>

#include "fuzz/fuzz_input.h"
#include "image/codec.h"

namespace {

// A JPEG that begins with this EXIF block and then ends.
std::string jpeg_with_exif(std::string_view block) {
  const std::string_view part = block.substr(0, std::min<size_t>(block.size(), 65000));
  const std::string content = std::string("Exif\0\0", 6) + std::string(part);
  const size_t length = content.size() + 2;
  std::string bytes("\xff\xd8\xff\xe1", 4);
  bytes.push_back(static_cast<char>(length >> 8));
  bytes.push_back(static_cast<char>(length & 255));
  return bytes + content;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = gantrain::text_of_input(data, size);
  for (const std::string& jpeg : {std::string(bytes), jpeg_with_exif(bytes)}) {
    const int orientation = gantrain::jpeg_orientation(jpeg);
    gantrain::require(orientation >= 1 && orientation <= 8, "an orientation that does not exist");
  }
  return 0;
}
