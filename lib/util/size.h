// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// A size that networks reach by doubling both sides of a start size, whose shorter side has 4 to 7
// pixels: 64x64 = 4x4 times 2^4, 256x128 = 8x4 times 2^5, 320x448 = 5x7 times 2^6. There is at most
// one such start for a size.
struct DoubledSize {
  // The shorter side of the squares that begin with 4x4 and are doubled as often: a network for
  // 256x128 has blocks, feature maps and names of one for 128x128.
  int64_t nominal() const { return int64_t{4} << doublings; }
  // The size of the pictures in the block of that nominal resolution: 4, 8, ... nominal().
  Size at(int64_t nominal) const { return {start.width * nominal / 4, start.height * nominal / 4}; }

  Size start;
  int64_t doublings = 0;
};

// Returns how `size` is reached by doubling; nothing where it is not.
std::optional<DoubledSize> find_doubled_size(const Size& size);
// The same for a size that is known to be one. Throws std::logic_error for another size.
DoubledSize doubled_size(const Size& size);

// Returns the nearest powers of two below and above `side`, as far as they lie in that range: "16
// and 32", "1024".
std::string powers_of_two_near(int64_t side, int64_t least, int64_t most);

// Returns the sizes nearest to `size`, the nearest first, that are reached by `fewest` to `most`
// doublings: at most three.
struct Doublings {
  int64_t fewest = 0;
  int64_t most = 8;
};
std::vector<Size> nearest_doubled_sizes(const Size& size, const Doublings& doublings);

// Writes the numbers of the resolutions 4, 8, 16, ... as keys of networks take them, the last one
// for all others: {96, 96, 48} is "4:96,8:96,48". There is one at least.
std::string by_resolution(const std::vector<int64_t>& numbers);

}  // namespace gantrain
