// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gantrain {

// Reads rows of fields (RFC 4180), separated by commas, or by the tabs or semicolons of a first
// line that has no commas. Blanks around fields without quotes, empty lines and a byte order mark
// are left out. `lines`, if not null, gets the number of each row's first line, from 1. Throws
// UserError(kInput) that names `name` and the line where a quote is not closed.
std::vector<std::vector<std::string>> read_csv(std::string_view text,
                                               const std::string& name,
                                               std::vector<int64_t>* lines = nullptr);

// Reads "size=0.3,angle=-1": names and numbers. Returns nothing where a part is something else.
std::optional<std::vector<std::pair<std::string, double>>> parse_assignments(std::string_view text);

}  // namespace gantrain
