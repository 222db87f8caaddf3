// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe_facts.h"

namespace gantrain {

// Returns the facts of all recipes, which the program needs without LibTorch. The part that
// computes is in app/config/recipes.cpp; a new recipe adds one row to each of the two files.
const std::vector<RecipeFacts>& recipe_facts();
// Returns the facts of a recipe by name. Throws UserError(kUsage) that names the recipes there are.
const RecipeFacts& find_recipe_facts(const std::string& name);

}  // namespace gantrain
