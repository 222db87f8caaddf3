// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace gantrain {

// Returns what follows "KEY:" in the first line with that key of a file such as /proc/meminfo,
// without the blanks around it; "" if there is none.
std::string proc_value(const std::string& file, const std::string& key);

// The same as a number of bytes: "8053064 kB" -> 8246337536. 0 if there is no such number.
int64_t proc_bytes(const std::string& file, const std::string& key);

}  // namespace gantrain
