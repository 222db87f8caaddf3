// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "gan/recipe_facts.h"

namespace gantrain {

// All recipes, by what the program without LibTorch knows of them. The other half of each row is in
// recipes.cpp; a new recipe adds one row to each.
const std::vector<RecipeFacts>& recipe_facts();
// Throws UserError(kUsage) naming the recipes there are.
const RecipeFacts& find_recipe_facts(const std::string& name);

// Every key of a run of that recipe with its default.
Schema full_schema(const std::string& recipe);

}  // namespace gantrain
