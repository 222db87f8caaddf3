// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gantrain {

// Whether `force`, what --force was given (names with commas between, or "all"), names `what`: a
// key, or "data".
bool is_forced(const std::string& force, const std::string& what);

}  // namespace gantrain
