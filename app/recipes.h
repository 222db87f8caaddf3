// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gan/recipe_table.h"

namespace gantrain {

// All recipes with what computes; schema.cpp lists what is known of them without LibTorch.
const RecipeTable& recipe_rows();
// Throws UserError(kInput) naming a recipe that there is none of.
const RecipeRow& find_recipe(const std::string& name);

}  // namespace gantrain
