// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gan/recipe.h"

namespace gantrain {

// The recipes that a program has; app/recipes.h makes the program's table.
using RecipeTable = std::vector<RecipeRow>;

// Returns a recipe by name. Throws UserError(kInput) that names it, behind what says it ("FILE: "),
// where the table does not have it.
const RecipeRow& find_recipe(const RecipeTable& recipes,
                             const std::string& name,
                             const std::string& said_by = "");

}  // namespace gantrain
