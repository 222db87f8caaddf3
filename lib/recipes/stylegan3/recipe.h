// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"

namespace gantrain::stylegan3 {

// The row of StyleGAN3 (Karras et al. 2021) for the table of recipes. An iteration has the phases
// Gmain, Dmain, Dreg (R1).
RecipeRow row();

}  // namespace gantrain::stylegan3
