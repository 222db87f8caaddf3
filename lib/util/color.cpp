// SPDX-License-Identifier: Apache-2.0
#include "util/color.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace gantrain {

namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr std::array<std::pair<std::string_view, Color>, 4> kWords = {{
    {"error", Color::kRed},
    {"warning", Color::kYellow},
    {"next", Color::kCyan},
    {"done", Color::kGreen},
}};

}  // namespace

bool shows_colors() {
  const std::string_view asked = environment(kColorVariable);
  if (asked == "always") return true;
  if (asked == "never" || !environment("NO_COLOR").empty()) return false;
  const std::string_view terminal = environment("TERM");
  return !terminal.empty() && terminal != "dumb" && ::isatty(STDERR_FILENO) == 1;
}

std::string painted(std::string_view text, Color color) {
  return fmt::format("\033[{}m{}\033[0m", static_cast<int64_t>(color), text);
}

std::string paint_first_word(const std::string& line) {
  const std::string_view word = std::string_view(line).substr(0, line.find(' '));
  for (const auto& [known, color] : kWords) {
    if (word == known) return painted(word, color) + line.substr(word.size());
  }
  return line;
}

}  // namespace gantrain
