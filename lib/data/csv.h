// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// Reads rows of fields (RFC 4180): separated by commas, or by the tabs or semicolons of a first
// line that has no commas; fields may stand in double quotes, in which two stand for one and lines
// may break. Blanks around fields without quotes, empty lines and a byte order mark are left out.
// Throws UserError(kInput) that names `name` and the line where a quote is not closed.
std::vector<std::vector<std::string>> read_csv(std::string_view text, const std::string& name);

}  // namespace gantrain
