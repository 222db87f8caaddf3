// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"

namespace gantrain {

// Every way in which a recipe may call its networks: G by its parts mapping, noise (no parameters),
// fixed (frozen for good) and synthesis; D twice with different inputs and by a member function
// that is not forward; a phase that is a penalty alone and leaves D's bias out. Options are
// toy_config's.
std::unique_ptr<Recipe> make_parts_recipe(const RecipeContext& context);

// A GAN that grows: at `level` the blocks up to it take part, and are active. `promises`: its
// phases say that they reach all that is active.
class GrowingRecipe : public Recipe {
 public:
  int64_t level = 0;
};
std::unique_ptr<GrowingRecipe> make_growing_recipe(const RecipeContext& context,
                                                   bool promises,
                                                   int64_t width = 6);

}  // namespace gantrain
