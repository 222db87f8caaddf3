// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gantrain {

// Width and height of a picture in pixels.
struct Size {
  int64_t width = 0;
  int64_t height = 0;

  bool operator==(const Size&) const = default;
  bool is_square() const { return width == height; }
  int64_t shorter() const { return width < height ? width : height; }
  int64_t longer() const { return width < height ? height : width; }
  int64_t pixels() const { return width * height; }
};

constexpr Size square_of(int64_t side) { return {side, side}; }

// Reads "64" (a square) or "256x128", width first, with x or X. Returns nothing for other text, and
// for numbers below 1.
std::optional<Size> parse_size(std::string_view text);
// Writes what parse_size() reads: "64", "256x128".
std::string to_text(const Size& size);

}  // namespace gantrain
