// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"

namespace gantrain::mlp {

// The row for the table of recipes.
RecipeRow row();

}  // namespace gantrain::mlp
