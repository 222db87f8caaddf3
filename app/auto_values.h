// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace gantrain {

// Fills in what the recipe chooses by resolution and number of ranks. A run folder that is resumed
// (run.run_dir, run.resume) keeps what was chosen when it began, whatever the number of ranks now.
// Returns lines that say what was chosen and why.
std::vector<std::string> choose_auto_values(Config& config, int64_t ranks);

}  // namespace gantrain
