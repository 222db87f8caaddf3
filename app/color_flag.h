// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gantrain {

constexpr const char* kColorHelp =
    "colours of messages: auto (on a terminal, unless NO_COLOR is set), always or never";

// Takes --color WHEN and --no-color, which every command understands, out of the command line and
// obeys it, in the processes that this one starts, too. Throws UserError(kUsage) for another word
// than auto, always or never.
void take_color(std::vector<std::string>& arguments);

}  // namespace gantrain
