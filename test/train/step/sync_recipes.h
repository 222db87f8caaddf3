// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"

namespace gantrain {

// Every way in which a recipe may call its networks: G by its parts mapping, noise (no parameters),
// fixed (frozen for good) and synthesis; D twice with different inputs and by a member function
// that is not forward; a phase that is a penalty alone, at odd iterations, and leaves D's bias out.
// Its pictures are toy_pictures(). Keys of its own: G.*, D.*, and parts.d_interval, the interval of
// D's main phase.
RecipeRow parts_row();
Config parts_config(const std::map<std::string, Json>& changes = {});

// A GAN that grows: in stage 0, 1 or 2 the blocks up to that number take part, and are active. All
// stages take toy_pictures(). Keys of its own: G.*, D.*, growing.promises (its phases say that they
// reach all that is active; on) and growing.width.
RecipeRow growing_row();
Config growing_config(const std::map<std::string, Json>& changes = {});

}  // namespace gantrain
