// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gan/recipe.h"

namespace gantrain {

// The table of recipes; schema.cpp has the half that needs no torch.
const std::vector<RecipeRow>& recipe_rows();
const RecipeRow& find_recipe(const std::string& name);

}  // namespace gantrain
