// SPDX-License-Identifier: Apache-2.0
#include "util/time.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <ctime>

#include "util/text.h"

namespace gantrain {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string timestamp(double when) {
  const std::time_t seconds = static_cast<std::time_t>(when);
  std::tm local{};
  localtime_r(&seconds, &local);
  char buffer[32];
  std::strftime(buffer, sizeof(buffer), "%Y-%m-%d %H:%M:%S", &local);
  return buffer;
}

std::optional<double> parse_duration(std::string_view text) {
  if (const auto plain = parse_double(text)) return *plain >= 0 ? plain : std::nullopt;
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    size_t digits = 0;
    while (digits < text.size() && (std::isdigit(text[digits]) != 0 || text[digits] == '.'))
      ++digits;
    if (digits == 0 || digits == text.size()) return std::nullopt;
    const auto value = parse_double(text.substr(0, digits));
    if (!value) return std::nullopt;
    switch (text[digits]) {
      case 's':
        total += *value;
        break;
      case 'm':
        total += *value * 60;
        break;
      case 'h':
        total += *value * 3600;
        break;
      case 'd':
        total += *value * 86400;
        break;
      default:
        return std::nullopt;
    }
    text.remove_prefix(digits + 1);
  }
  return total;
}

std::string short_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

}  // namespace gantrain
