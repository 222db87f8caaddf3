// SPDX-License-Identifier: Apache-2.0
#include "image/caption.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace gantrain {

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
