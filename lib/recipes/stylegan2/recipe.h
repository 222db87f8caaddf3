// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"

namespace gantrain::stylegan2 {

// The row of StyleGAN2 (Karras et al. 2020a) with adaptive discriminator augmentation (2020b) for
// the table of recipes. An iteration has the phases Gmain, Greg (path length), Dmain, Dreg (R1).
RecipeRow row();

}  // namespace gantrain::stylegan2
