// SPDX-License-Identifier: Apache-2.0
#include "report/grid.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "core/torch.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

// [H, W, C] uint8 or uint16 -> Image.
Image from_pixels(const at::Tensor& pixels) {
  const at::Tensor dense = pixels.contiguous();
  const auto* first = static_cast<const uint8_t*>(dense.const_data_ptr());
  return {.width = dense.size(1),
          .height = dense.size(0),
          .channels = dense.size(2),
          .pixels = std::vector<uint8_t>(first, first + dense.nbytes()),
          .depth = dense.scalar_type() == at::kUInt16 ? 16 : 8,
          .stack = dense.size(2) > kMostColors};
}

// In the depth that they have; networks' pictures get bytes.
at::Tensor whole_numbers(const at::Tensor& images) {
  return to_depth(images, images.scalar_type() == at::kUInt16 ? 16 : 8);
}

}  // namespace

at::Tensor to_depth(const at::Tensor& images, int64_t depth) {
  if (depth == 8) return to_bytes(images);
  if (images.scalar_type() == at::kUInt16) return images.cpu();
  if (images.scalar_type() == at::kByte) return images.cpu().to(at::kInt).mul_(257).to(at::kUInt16);
  const at::Tensor scaled = images.detach().to(at::kFloat).mul(32767.5).add_(32768);
  return scaled.nan_to_num_(0).clamp_(0, 65535).to(at::kInt).to(at::kUInt16).cpu();
}

std::vector<int64_t> read_channels(const std::string& where,
                                   const std::string& text,
                                   int64_t channels) {
  std::vector<int64_t> chosen;
  if (text == "auto" || text.empty()) return chosen;
  for (const std::string& part : split(text, ',')) {
    const auto channel = parse_int(trim(part));
    if (!channel || *channel < 0 || *channel >= channels || chosen.size() == 3) {
      fail(Exit::kUsage,
           "{} = {}: up to three channels, each from 0 to {}, or auto",
           where,
           text,
           channels - 1);
    }
    chosen.push_back(*channel);
  }
  return chosen;
}

at::Tensor shown_channels(const at::Tensor& images, const std::vector<int64_t>& channels) {
  const int64_t axis = images.dim() - 3;
  if (channels.empty())
    return images.size(axis) <= kMostColors ? images : images.narrow(axis, 0, 3);
  std::vector<at::Tensor> chosen;
  for (const int64_t channel : channels) chosen.push_back(images.narrow(axis, channel, 1));
  if (chosen.size() == 2) {
    // Black: 0 of whole numbers, -1 of networks' pictures.
    const bool whole = !images.is_floating_point();
    chosen.push_back(torch::full_like(chosen.front(), whole ? 0 : -1));
  }
  return torch::cat(chosen, axis);
}

Image to_image(const at::Tensor& picture) {
  TORCH_CHECK(picture.dim() == 3, "to_image: a picture is [C, H, W]");
  TORCH_CHECK(picture.size(0) >= 1 && picture.size(0) <= kMaxChannels,
              "pictures have 1 to 16 channels, not ",
              picture.size(0));
  return from_pixels(whole_numbers(picture).permute({1, 2, 0}));
}

Image tile(const at::Tensor& images, int64_t columns) {
  TORCH_CHECK(images.dim() == 4 && images.size(0) > 0, "tile: pictures are [N, C, H, W]");
  TORCH_CHECK(columns > 0, "tile: at least one column");
  const at::Tensor bytes = whole_numbers(shown_channels(images, {}));
  const int64_t count = bytes.size(0), channels = bytes.size(1);
  const int64_t height = bytes.size(2), width = bytes.size(3);
  columns = std::min(columns, count);
  const int64_t rows = (count + columns - 1) / columns;
  at::Tensor cells = at::zeros({rows * columns, channels, height, width}, bytes.options());
  cells.narrow(0, 0, count).copy_(bytes);
  return from_pixels(cells.view({rows, columns, channels, height, width})
                         .permute({0, 3, 1, 4, 2})
                         .reshape({rows * height, columns * width, channels}));
}

namespace {
constexpr int64_t kCaptionLetters = 13;  // "features 0.12"
constexpr int64_t kLargeCell = 256;      // pixels, whose captions are twice as large
}  // namespace

Image captioned_tile(const at::Tensor& images,
                     const std::vector<std::string>& captions,
                     int64_t columns) {
  const int64_t width = images.size(3);
  const int64_t least = kCaptionLetters * kCaptionWidth;
  const int64_t larger = (least + width - 1) / width, cell = width * larger;
  const int64_t scale = cell >= kLargeCell ? 2 : 1, strip = scale * kCaptionHeight;
  at::Tensor pictures = to_bytes(images);
  if (larger > 1) pictures = pictures.repeat_interleave(larger, 2).repeat_interleave(larger, 3);
  Image image = tile(at::constant_pad_nd(pictures, {0, 0, 0, strip}), columns);
  const int64_t height = pictures.size(2);
  for (size_t i = 0; i < captions.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t row = at / columns, column = at % columns;
    draw_caption(image, column * cell, row * (height + strip) + height, cell, captions[i], scale);
  }
  return image;
}

namespace {

constexpr int64_t kGlyphWidth = 5, kGlyphHeight = 7, kMargin = 2;

struct Glyph {
  char character;
  std::string_view rows;  // seven of five, 1: ink
};

constexpr std::array<Glyph, 46> kGlyphs = {{{'0', "01110 10001 10011 10101 11001 10001 01110"},
                                            {'1', "00100 01100 00100 00100 00100 00100 01110"},
                                            {'2', "01110 10001 00001 00110 01000 10000 11111"},
                                            {'3', "11110 00001 00001 01110 00001 00001 11110"},
                                            {'4', "00010 00110 01010 10010 11111 00010 00010"},
                                            {'5', "11111 10000 11110 00001 00001 10001 01110"},
                                            {'6', "01110 10000 10000 11110 10001 10001 01110"},
                                            {'7', "11111 00001 00010 00100 01000 01000 01000"},
                                            {'8', "01110 10001 10001 01110 10001 10001 01110"},
                                            {'9', "01110 10001 10001 01111 00001 00001 01110"},
                                            {'A', "01110 10001 10001 11111 10001 10001 10001"},
                                            {'B', "11110 10001 10001 11110 10001 10001 11110"},
                                            {'C', "01110 10001 10000 10000 10000 10001 01110"},
                                            {'D', "11110 10001 10001 10001 10001 10001 11110"},
                                            {'E', "11111 10000 10000 11110 10000 10000 11111"},
                                            {'F', "11111 10000 10000 11110 10000 10000 10000"},
                                            {'G', "01110 10001 10000 10111 10001 10001 01111"},
                                            {'H', "10001 10001 10001 11111 10001 10001 10001"},
                                            {'I', "01110 00100 00100 00100 00100 00100 01110"},
                                            {'J', "00111 00010 00010 00010 00010 10010 01100"},
                                            {'K', "10001 10010 10100 11000 10100 10010 10001"},
                                            {'L', "10000 10000 10000 10000 10000 10000 11111"},
                                            {'M', "10001 11011 10101 10101 10001 10001 10001"},
                                            {'N', "10001 11001 10101 10011 10001 10001 10001"},
                                            {'O', "01110 10001 10001 10001 10001 10001 01110"},
                                            {'P', "11110 10001 10001 11110 10000 10000 10000"},
                                            {'Q', "01110 10001 10001 10001 10101 10010 01101"},
                                            {'R', "11110 10001 10001 11110 10100 10010 10001"},
                                            {'S', "01111 10000 10000 01110 00001 00001 11110"},
                                            {'T', "11111 00100 00100 00100 00100 00100 00100"},
                                            {'U', "10001 10001 10001 10001 10001 10001 01110"},
                                            {'V', "10001 10001 10001 10001 10001 01010 00100"},
                                            {'W', "10001 10001 10001 10101 10101 10101 01010"},
                                            {'X', "10001 10001 01010 00100 01010 10001 10001"},
                                            {'Y', "10001 10001 01010 00100 00100 00100 00100"},
                                            {'Z', "11111 00001 00010 00100 01000 10000 11111"},
                                            {'.', "00000 00000 00000 00000 00000 01100 01100"},
                                            {',', "00000 00000 00000 00000 01100 00100 01000"},
                                            {':', "00000 01100 01100 00000 01100 01100 00000"},
                                            {'-', "00000 00000 00000 11111 00000 00000 00000"},
                                            {'+', "00000 00100 00100 11111 00100 00100 00000"},
                                            {'_', "00000 00000 00000 00000 00000 00000 11111"},
                                            {'/', "00001 00001 00010 00100 01000 10000 10000"},
                                            {'(', "00010 00100 01000 01000 01000 00100 00010"},
                                            {')', "01000 00100 00010 00010 00010 00100 01000"},
                                            {'=', "00000 00000 11111 00000 11111 00000 00000"}}};

// Blank for characters that have no glyph.
bool has_ink(char character, int64_t row, int64_t column) {
  const char capital = static_cast<char>(std::toupper(static_cast<unsigned char>(character)));
  const auto glyph = std::ranges::find(kGlyphs, capital, &Glyph::character);
  if (glyph == kGlyphs.end()) return false;
  return glyph->rows[static_cast<size_t>(row * (kGlyphWidth + 1) + column)] == '1';
}

void set_grey(Image& image, int64_t x, int64_t y, uint8_t value) {
  if (x < 0 || y < 0 || x >= image.width || y >= image.height) return;
  uint8_t* pixel = &image.pixels[static_cast<size_t>((y * image.width + x) * image.channels)];
  const bool has_alpha = image.channels % 2 == 0;
  for (int64_t c = 0; c < image.channels; ++c)
    pixel[c] = has_alpha && c + 1 == image.channels ? 255 : value;
}

}  // namespace

void draw_caption(
    Image& image, int64_t x, int64_t y, int64_t width, const std::string& text, int64_t scale) {
  const auto room = static_cast<size_t>(std::max<int64_t>(width / scale / kCaptionWidth, 0));
  const std::string seen = text.size() <= room ? text : text.substr(text.size() - room);
  for (int64_t down = 0; down < kCaptionHeight * scale; ++down) {
    for (int64_t across = 0; across < width; ++across) {
      const int64_t row = down / scale - kMargin, column = across / scale;
      const auto place = static_cast<size_t>(column / kCaptionWidth);
      const int64_t inside = column % kCaptionWidth;
      const bool ink = row >= 0 && row < kGlyphHeight && inside < kGlyphWidth &&
                       place < seen.size() && has_ink(seen[place], row, inside);
      set_grey(image, x + across, y + down, ink ? 255 : 0);
    }
  }
}

}  // namespace gantrain
