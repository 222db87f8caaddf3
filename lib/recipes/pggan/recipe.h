// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"
#include "recipes/pggan/options.h"

namespace gantrain::pggan {

// This recipe's row for the table of recipes.
RecipeRow row();

}  // namespace gantrain::pggan
