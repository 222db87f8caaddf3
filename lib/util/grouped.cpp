// SPDX-License-Identifier: Apache-2.0
#include "util/grouped.h"

#include <fmt/format.h>

#include <cmath>

namespace gantrain {

std::string grouped(double value) {
  constexpr double kWhole = 99.95;  // what is less has a digit after the point
  if (!std::isfinite(value) || std::abs(value) < kWhole) return fmt::format("{:.3g}", value);
  std::string text = fmt::format("{:.0f}", value);
  const size_t sign = value < 0 ? 1 : 0;
  for (size_t end = text.size(); end > sign + 3;) {
    end -= 3;
    text.insert(end, ",");
  }
  return text;
}

}  // namespace gantrain
