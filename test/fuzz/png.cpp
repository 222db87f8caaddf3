// SPDX-License-Identifier: Apache-2.0
// PNG pictures: as they are, and with right checksums, without which hardly any damage would be
// seen by more than the check of the checksum.
#include <zlib.h>

#include "fuzz/picture.h"

namespace {

constexpr size_t kSignature = 8;
constexpr size_t kAround = 12;  // length, type and checksum of a chunk

// Corrects the checksum of every whole chunk (PNG specification, sec. 5.3).
std::string with_checksums(std::string bytes) {
  size_t at = kSignature;
  while (at + kAround <= bytes.size()) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(bytes[at + i]);
    if (length > bytes.size() - at - kAround) break;
    const auto* type = reinterpret_cast<const Bytef*>(bytes.data() + at + 4);
    const auto checksum = static_cast<uint32_t>(crc32_z(0, type, length + 4));
    at += length + kAround;
    for (size_t i = 1; i <= 4; ++i)
      bytes[at - i] = static_cast<char>(checksum >> 8 * (i - 1) & 255);
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = gantrain::text_of_input(data, size);
  gantrain::read_picture(bytes);
  gantrain::read_picture(with_checksums(std::string(bytes)));
  return 0;
}
