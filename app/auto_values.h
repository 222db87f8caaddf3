// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace gantrain {

// Fills in the values that the recipe chooses by resolution and number of ranks. A run folder that
// is resumed (run.run_dir, run.resume) keeps the values chosen when the run began, whatever the
// number of ranks is now. Returns lines that say what was chosen and why.
std::vector<std::string> choose_auto_values(Config& config, int64_t ranks);

}  // namespace gantrain
