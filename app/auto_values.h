// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "gan/recipe_facts.h"

namespace gantrain {

// Fills in the values that the recipe chooses by resolution, number of ranks and device. A run
// folder that is resumed (run.run_dir, run.resume) keeps the values that the run began with,
// whatever ranks and device it has now, but for those that change nothing except its speed (how a
// batch is cut, loading threads). Returns lines that say what was chosen and why.
std::vector<std::string> choose_auto_values(Config& config, const Site& site);

}  // namespace gantrain
