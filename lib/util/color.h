// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace gantrain {

// When lines on standard error have colours. A log file never has any.
enum class ColorWhen {
  kAuto,    // on a terminal, unless TERM is unset or "dumb", or NO_COLOR holds something
  kAlways,  // also through a pipe, and whatever NO_COLOR says
  kNever,
};
constexpr std::array<std::string_view, 3> names(ColorWhen) { return {"auto", "always", "never"}; }

// The variable of the environment through which --color reaches the ranks and the trainer library,
// which has a log of its own.
constexpr const char* kColorVariable = "GANTRAIN_COLOR";

// Whether standard error is to have colours now, by kColorVariable and the terminal.
bool shows_colors();

enum class Color : int64_t { kRed = 31, kGreen = 32, kYellow = 33, kCyan = 36 };
// Returns the text between the sequences that begin and end a colour.
std::string painted(std::string_view text, Color color);

// Returns a line with its first word in that word's colour: error is red, warning yellow, next
// cyan, done green. Other lines come back as they are.
std::string paint_first_word(const std::string& line);

}  // namespace gantrain
