// SPDX-License-Identifier: Apache-2.0
#include "curation/picture_form.h"

#include <algorithm>

#include "util/text.h"

namespace gantrain {

namespace {

uint32_t byte_at(std::string_view bytes, size_t at) {
  return at < bytes.size() ? static_cast<uint8_t>(bytes[at]) : 0;
}

uint32_t big_endian(std::string_view bytes, size_t at) {
  return byte_at(bytes, at) << 24 | byte_at(bytes, at + 1) << 16 | byte_at(bytes, at + 2) << 8 |
         byte_at(bytes, at + 3);
}

// Whether a PNG has the chunk before its pixels. Chunks: length, name, content, checksum.
bool has_chunk(std::string_view png, std::string_view name) {
  size_t at = 8;
  while (at + 12 <= png.size()) {
    const std::string_view here = png.substr(at + 4, 4);
    if (here == name) return true;
    if (here == "IDAT") return false;
    at += 12 + size_t{big_endian(png, at)};
  }
  return false;
}

// The header is the first chunk (PNG specification, 11.2.2).
PictureForm png_form(std::string_view bytes) {
  enum Color : uint32_t { kGrey = 0, kPalette = 3, kGreyAlpha = 4, kRgbAlpha = 6 };
  const uint32_t color = byte_at(bytes, 25);
  return {.format = "PNG",
          .bits = static_cast<int64_t>(byte_at(bytes, 24)),
          .grey = color == kGrey || color == kGreyAlpha,
          .palette = color == kPalette,
          .alpha = color == kGreyAlpha || color == kRgbAlpha || has_chunk(bytes, "tRNS")};
}

// The number of components stands in the frame header, whose markers are C0 to CF but for C4, C8
// and CC (ITU-T T.81, B.2.2).
PictureForm jpeg_form(std::string_view bytes) {
  PictureForm form{.format = "JPEG"};
  size_t at = 2;
  while (at + 10 <= bytes.size() && byte_at(bytes, at) == 0xff) {
    const uint32_t marker = byte_at(bytes, at + 1);
    if (marker == 0xff) {  // a fill byte
      at += 1;
      continue;
    }
    const bool frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame) {
      form.bits = static_cast<int64_t>(byte_at(bytes, at + 4));
      form.grey = byte_at(bytes, at + 9) == 1;
      form.cmyk = byte_at(bytes, at + 9) == 4;
      return form;
    }
    at += 2 + (size_t{byte_at(bytes, at + 2)} << 8 | byte_at(bytes, at + 3));
  }
  return form;
}

// Alpha is a flag of the header of the extended and of the lossless format (WebP container
// specification).
PictureForm webp_form(std::string_view bytes) {
  PictureForm form{.format = "WebP"};
  const std::string_view kind = bytes.substr(std::min<size_t>(12, bytes.size()), 4);
  if (kind == "VP8X") form.alpha = (byte_at(bytes, 20) & 0x10) != 0;
  if (kind == "VP8L") form.alpha = (byte_at(bytes, 24) & 0x10) != 0;
  return form;
}

}  // namespace

PictureForm form_of(std::string_view bytes) {
  if (starts_with(bytes, "\x89PNG")) return png_form(bytes);
  if (starts_with(bytes, "\xff\xd8")) return jpeg_form(bytes);
  if (starts_with(bytes, "RIFF")) return webp_form(bytes);
  return {};
}

}  // namespace gantrain
