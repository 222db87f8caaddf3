// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "gan/recipe_facts.h"

namespace gantrain {

// Returns the facts of all recipes, which the program needs without LibTorch. The part that
// computes is in recipes.cpp; a new recipe adds one row to each of the two files.
const std::vector<RecipeFacts>& recipe_facts();
// Returns the facts of a recipe by name. Throws UserError(kUsage) that names the recipes there are.
const RecipeFacts& find_recipe_facts(const std::string& name);

// Returns every key of a run of that recipe with its default.
Schema full_schema(const std::string& recipe);

}  // namespace gantrain
