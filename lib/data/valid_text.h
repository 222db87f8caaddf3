// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gantrain {

// Returns a file's or class's name as it can stand in JSON, which takes only UTF-8: other bytes are
// replaced.
std::string valid_text(const std::string& name);

}  // namespace gantrain
