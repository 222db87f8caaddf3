// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gantrain {

// Writes the numbers of the resolutions 4, 8, 16, ... as keys of networks take them, the last one
// for all others: {96, 96, 48} is "4:96,8:96,48". There is one at least.
std::string by_resolution(const std::vector<int64_t>& numbers);

}  // namespace gantrain
