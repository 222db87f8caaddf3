// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gantrain {

// Returns what a file is by its first bytes, for a message that refuses it: "a PNG picture", "a web
// page (HTML)"; "" where they do not tell.
std::string file_kind(std::string_view bytes);

// Throws UserError(kUsage) with the command that downloads it where an address of the web was given
// for a file.
void refuse_address(const std::string& given);

}  // namespace gantrain
