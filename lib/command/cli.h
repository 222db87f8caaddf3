// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gantrain {

// Throws UserError(kUsage) where an argument or a GANTRAIN_* variable is not UTF-8: it could not be
// written as JSON, in which configurations travel.
void check_text(const std::vector<std::string>& arguments);

// Returns the whole command line, quoted for a shell, for command.txt and the line that says how to
// resume.
std::string command_line();

constexpr const char* kColorHelp =
    "colours of messages: auto (on a terminal, unless NO_COLOR is set), always or never";

// Takes --color WHEN and --no-color, which every command understands, out of the command line and
// obeys it, in the processes that this one starts, too. Throws UserError(kUsage) for another word
// than auto, always or never.
void take_color(std::vector<std::string>& arguments);

}  // namespace gantrain
