// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"

namespace gantrain {

// A GAN of another shape than the program's: one generator, G, and two discriminators, W for whole
// pictures and L for their upper left corners. W's phase hands its pictures over to G's; W is
// regularised by R1 at every second iteration; the mean sign of W's scores over the global batch
// outlives an iteration and weighs L's loss. Its pictures are toy_pictures(). Keys of its own: G.*,
// W.*, L.*, and three.gamma, a number or a ramp.
RecipeRow three_networks_row();
Config three_networks_config(const std::map<std::string, Json>& changes = {});

}  // namespace gantrain
