// SPDX-License-Identifier: Apache-2.0
#include "util/size.h"

#include <fmt/format.h>

#include <algorithm>

#include "util/text.h"

namespace gantrain {

namespace {

// Digits alone: parse_int() would also take a sign.
std::optional<int64_t> parse_side(std::string_view text) {
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const auto side = digits ? parse_int(text) : std::nullopt;
  return side && *side > 0 ? side : std::nullopt;
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

}  // namespace gantrain
