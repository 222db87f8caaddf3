// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace gantrain {

// Where the shell would find that program by PATH; empty: nowhere.
std::filesystem::path find_program(const std::string& name);

}  // namespace gantrain
