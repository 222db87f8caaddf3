// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"
#include "recipes/stylegan1/options.h"

namespace gantrain::stylegan1 {

// This recipe's row for the table of recipes.
RecipeRow row();

}  // namespace gantrain::stylegan1
