// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gan/recipe.h"

namespace gantrain {

// Returns all recipes with their parts that compute; schema.cpp lists what is known of recipes
// without LibTorch.
const RecipeTable& recipe_rows();
// Returns a recipe by name. Throws UserError(kInput) that names it where there is no such recipe.
const RecipeRow& find_recipe(const std::string& name);

}  // namespace gantrain
