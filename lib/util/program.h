// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace gantrain {

// Returns the path where the shell would find the program by PATH, or an empty path.
std::filesystem::path find_program(const std::string& name);

}  // namespace gantrain
