// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"

namespace gantrain::dcgan {

// The row of DCGAN (Radford et al. 2016) for the table of recipes, with the losses of Goodfellow
// 2014, Mao 2017 or Gulrajani 2017.
RecipeRow row();

}  // namespace gantrain::dcgan
