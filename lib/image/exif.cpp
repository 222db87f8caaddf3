// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "image/codec.h"
#include "util/text.h"

namespace gantrain {

namespace {

uint32_t byte_at(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

// Numbers of a TIFF block in its own byte order; 0 behind its end.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), big_(starts_with(bytes, "MM")) {}

  uint32_t u16(size_t at) const { return number(at, 2); }
  uint32_t u32(size_t at) const { return number(at, 4); }

 private:
  uint32_t number(size_t at, size_t count) const {
    if (bytes_.size() < count || at > bytes_.size() - count) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      value = value << 8 | byte_at(bytes_, at + (big_ ? i : count - 1 - i));
    }
    return value;
  }

  std::string_view bytes_;
  bool big_;
};

// Exif 2.3, sec. 4.6.4: tag 0x0112 of the first directory.
int orientation_of(std::string_view block) {
  const Tiff tiff(block);
  const size_t directory = tiff.u32(4);
  const size_t entries = tiff.u16(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry >= block.size()) break;
    if (tiff.u16(entry) != 0x0112) continue;
    const auto value = static_cast<int>(tiff.u16(entry + 8));
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

}  // namespace

int jpeg_orientation(std::string_view bytes) {
  // Segments: 0xff, marker, length of two bytes (itself included), content.
  for (size_t at = 2; at + 4 <= bytes.size() && byte_at(bytes, at) == 0xff;) {
    const uint32_t marker = byte_at(bytes, at + 1);
    if (marker == 0xff) {  // fill byte
      ++at;
      continue;
    }
    if (marker == 0xda) break;  // the pixels start
    const size_t length = byte_at(bytes, at + 2) << 8 | byte_at(bytes, at + 3);
    if (length < 2) break;
    const std::string_view content = bytes.substr(at + 4, length - 2);
    if (marker == 0xe1 && starts_with(content, std::string_view("Exif\0\0", 6))) {
      return orientation_of(content.substr(6));
    }
    at += 2 + length;
  }
  return 1;
}

}  // namespace gantrain
