// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gan/recipe.h"

namespace gantrain {

// The recipes that a program has; app/recipes.h makes the one of gantrain.
using RecipeTable = std::vector<RecipeRow>;

// Throws UserError(kInput) naming a recipe that the table does not have.
const RecipeRow& find_recipe(const RecipeTable& recipes, const std::string& name);

}  // namespace gantrain
