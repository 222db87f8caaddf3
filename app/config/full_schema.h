// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "recipes/facts.h"

namespace gantrain {

// Returns the names of the recipes whose official variables `import` knows.
std::vector<std::string> officially_named();

// Returns every key of a run of that recipe with its default.
Schema full_schema(const std::string& recipe);

}  // namespace gantrain
