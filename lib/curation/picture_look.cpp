// SPDX-License-Identifier: Apache-2.0
#include "curation/picture_look.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "image/convert.h"
#include "image/resize.h"
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

namespace {

// Levels of 255. JPEG at quality 30 moves the mean of a cell by 1 to 3 levels, and a picture's
// quarter by less than one; another motif moves single cells by 50 and more.
constexpr float kQuarterDiffers = 3;
constexpr float kMostOnAverage = 5, kLeastOnAverage = 1;
constexpr float kMostInACell = 48, kLeastInACell = 6;
constexpr float kAspectDiffers = 0.06F;

constexpr float kBucket = 2 * kQuarterDiffers;  // so that neighbours lie in one of two buckets

float luma(const uint8_t* rgb) { return 0.299F * rgb[0] + 0.587F * rgb[1] + 0.114F * rgb[2]; }

int64_t bucket_of(float quarter) { return static_cast<int64_t>(std::floor(quarter / kBucket)); }

uint64_t key_of(const std::array<int64_t, 4>& buckets) {
  uint64_t key = 0;
  for (const int64_t bucket : buckets) key = key << 8 | static_cast<uint64_t>(bucket & 0xff);
  return key;
}

// The keys of all buckets that may hold a quarter within kQuarterDiffers of this one's.
std::vector<uint64_t> keys_near(const Look& look) {
  std::vector<uint64_t> keys;
  for (unsigned choice = 0; choice < 16; ++choice) {
    std::array<int64_t, 4> buckets{};
    for (unsigned q = 0; q < 4; ++q) {
      const float shift = (choice >> q & 1U) != 0 ? kQuarterDiffers : -kQuarterDiffers;
      buckets[q] = bucket_of(look.quarters[q] + shift);
    }
    keys.push_back(key_of(buckets));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

void measure(Look& look) {
  constexpr int64_t side = Look::kSide;
  constexpr double cells_of_quarter = side * side / 4.0;
  double sums[3] = {}, squares = 0;
  for (int64_t cell = 0; cell < side * side; ++cell) {
    const uint8_t* rgb = &look.cells[static_cast<size_t>(cell) * 3];
    const bool low = cell / side >= side / 2, right = cell % side >= side / 2;
    look.quarters[(low ? 2U : 0U) + (right ? 1U : 0U)] += luma(rgb) / cells_of_quarter;
    for (int c = 0; c < 3; ++c) {
      sums[c] += rgb[c];
      squares += double{1} * rgb[c] * rgb[c];
    }
  }
  double variance = squares / (3 * side * side);
  for (const double sum : sums) variance -= sum * sum / (3.0 * side * side * side * side);
  look.contrast = static_cast<float>(std::sqrt(std::max(0.0, variance)));
}

}  // namespace

Look look_of(const Image& image) {
  const Image small = resize(image, Size{Look::kSide, Look::kSide}, Filter::kBox);
  const Image rgb = with_channels(small, 3);
  Look look;
  std::copy(rgb.pixels.begin(), rgb.pixels.end(), look.cells.begin());
  look.aspect = static_cast<float>(image.width) / static_cast<float>(image.height);
  measure(look);
  return look;
}

bool look_alike(const Look& a, const Look& b) {
  if (std::abs(std::log(a.aspect / b.aspect)) > kAspectDiffers) return false;
  for (size_t q = 0; q < a.quarters.size(); ++q) {
    if (std::abs(a.quarters[q] - b.quarters[q]) > kQuarterDiffers) return false;
  }
  const float contrast = std::min(a.contrast, b.contrast);
  const auto in_a_cell = static_cast<int>(std::clamp(contrast, kLeastInACell, kMostInACell));
  const float on_average = std::clamp(contrast / 10, kLeastOnAverage, kMostOnAverage);
  const auto most = static_cast<int>(on_average * static_cast<float>(a.cells.size()));
  int sum = 0;
  for (size_t i = 0; i < a.cells.size(); ++i) {
    const int difference = std::abs(int{a.cells[i]} - int{b.cells[i]});
    sum += difference;
    if (difference > in_a_cell || sum > most) return false;
  }
  return true;
}

std::optional<int64_t> LookAlikes::add(int64_t picture, const Look& look) {
  for (const uint64_t key : keys_near(look)) {
    const auto found = by_cell_.find(key);
    if (found == by_cell_.end()) continue;
    for (const uint32_t at : found->second) {
      if (look_alike(firsts_[at].look, look)) return firsts_[at].picture;
    }
  }
  std::array<int64_t, 4> buckets{};
  for (size_t q = 0; q < buckets.size(); ++q) buckets[q] = bucket_of(look.quarters[q]);
  by_cell_[key_of(buckets)].push_back(static_cast<uint32_t>(firsts_.size()));
  firsts_.push_back({picture, look});
  return std::nullopt;
}

}  // namespace gantrain
