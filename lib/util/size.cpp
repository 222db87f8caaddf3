// SPDX-License-Identifier: Apache-2.0
#include "util/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "util/text.h"

namespace gantrain {

namespace {

// Digits alone: parse_int() would also take a sign.
std::optional<int64_t> parse_side(std::string_view text) {
  const bool digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  const auto side = digits ? parse_int(text) : std::nullopt;
  return side && *side > 0 ? side : std::nullopt;
}

constexpr int64_t kSmallestStart = 4;  // pixels of a start's shorter side
constexpr int64_t kLargestStart = 7;

// How far two sizes are apart: their widths and heights, each in proportion, and twice their
// proportions.
double distance(const Size& a, const Size& b) {
  const auto apart = [](int64_t x, int64_t y) {
    return std::log(static_cast<double>(x) / static_cast<double>(y));
  };
  const double width = apart(a.width, b.width), height = apart(a.height, b.height);
  return std::abs(width) + std::abs(height) + 2 * std::abs(width - height);
}

// Starts whose pictures, doubled so often, have about the proportions of `size`, and about its
// pixels where they can.
std::vector<Size> starts_near(const Size& size, int64_t doublings) {
  const double doubled = std::ldexp(1.0, static_cast<int>(doublings));
  const double shorter = static_cast<double>(size.shorter()) / doubled;
  const double scale =
      std::clamp<double>(shorter, kSmallestStart, kLargestStart) / (shorter * doubled);
  const auto below = [scale](int64_t side) {
    constexpr double kRounding = 1e-9;
    return static_cast<int64_t>(static_cast<double>(side) * scale + kRounding);
  };
  const int64_t width = below(size.width), height = below(size.height);
  std::vector<Size> all;
  for (const int64_t w : {width, width + 1}) {
    for (const int64_t h : {height, height + 1}) {
      const Size start{w, h};
      if (start.shorter() >= kSmallestStart && start.shorter() <= kLargestStart)
        all.push_back(start);
    }
  }
  return all;
}

}  // namespace

std::optional<Size> parse_size(std::string_view text) {
  const size_t by = text.find_first_of("xX");
  if (by == std::string_view::npos) {
    const auto side = parse_side(text);
    return side ? std::optional<Size>(square_of(*side)) : std::nullopt;
  }
  const auto width = parse_side(text.substr(0, by));
  const auto height = parse_side(text.substr(by + 1));
  if (!width || !height) return std::nullopt;
  return Size{*width, *height};
}

std::string to_text(const Size& size) {
  return size.is_square() ? std::to_string(size.width)
                          : fmt::format("{}x{}", size.width, size.height);
}

std::optional<DoubledSize> find_doubled_size(const Size& size) {
  DoubledSize found{size, 0};
  while (found.start.shorter() > kLargestStart) {
    if (found.start.width % 2 != 0 || found.start.height % 2 != 0) return std::nullopt;
    found.start = {found.start.width / 2, found.start.height / 2};
    ++found.doublings;
  }
  if (found.start.shorter() < kSmallestStart) return std::nullopt;
  return found;
}

DoubledSize doubled_size(const Size& size) {
  const auto found = find_doubled_size(size);
  if (!found) {
    throw std::logic_error(
        fmt::format("{} is no start of 4 to 7 pixels times a power of two", to_text(size)));
  }
  return *found;
}

std::string powers_of_two_near(int64_t side, int64_t least, int64_t most) {
  int64_t below = least;
  while (below * 2 <= std::min(side, most)) below *= 2;
  if (side < least || below * 2 > most) return std::to_string(below);
  return fmt::format("{} and {}", below, below * 2);
}

std::vector<Size> nearest_doubled_sizes(const Size& size, const Doublings& doublings) {
  std::vector<std::pair<double, Size>> all;
  for (int64_t k = doublings.fewest; k <= doublings.most; ++k) {
    for (const Size& start : starts_near(size, k)) {
      const Size candidate{start.width << k, start.height << k};
      all.emplace_back(distance(candidate, size), candidate);
    }
  }
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Size> nearest;
  for (const auto& [apart, candidate] : all) {
    const bool new_one = !contains(nearest, candidate);
    if (new_one && nearest.size() < 3) nearest.push_back(candidate);
  }
  return nearest;
}

std::string by_resolution(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    if (numbers[i] != numbers.back()) text += fmt::format("{}:{},", 4 << i, numbers[i]);
  }
  return fmt::format("{}{}", text, numbers.back());
}

}  // namespace gantrain
