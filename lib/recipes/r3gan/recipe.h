// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"

namespace gantrain::r3gan {

// The row of R3GAN (Huang et al. 2024) for the table of recipes. An iteration has the phases D and
// G; where the penalties are lazy (r3gan.penalty_interval), Dreg between them.
RecipeRow row();

}  // namespace gantrain::r3gan
