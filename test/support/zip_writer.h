// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gantrain {

// A zip archive in memory, entries stored or deflated.
std::string write_zip(const std::vector<std::pair<std::string, std::string>>& entries,
                      bool deflated);

}  // namespace gantrain
