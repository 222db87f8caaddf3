// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace gantrain {

// What a Python says that is none.
struct StandIn {
  std::string torch;   // the version of torch that it claims to have
  std::string answer;  // the last line of every script that it is given
};

// Writes a program that the benchmarks take for a Python. It keeps the command lines of the scripts
// in "calls", a line each.
std::filesystem::path stand_in_python(const TemporaryFolder& folder, const StandIn& says);

// Requires that the command succeeded, and returns the JSON in the last line of its output.
nlohmann::ordered_json last_line(const Outcome& outcome);

}  // namespace gantrain
