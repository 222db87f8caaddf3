// SPDX-License-Identifier: Apache-2.0
#include "config/recipes.h"

#include "recipes/dcgan/recipe.h"
#include "recipes/pggan/recipe.h"
#include "recipes/projected/recipe.h"
#include "recipes/r3gan/recipe.h"
#include "recipes/stylegan1/recipe.h"
#include "recipes/stylegan2/recipe.h"
#include "recipes/stylegan3/recipe.h"

namespace gantrain {

const RecipeTable& recipe_rows() {
  static const RecipeTable table = {
      dcgan::row(),
      pggan::row(),
      stylegan1::row(),
      stylegan2::row(),
      stylegan3::row(),
      r3gan::row(),
      projected::row(),
  };
  return table;
}

const RecipeRow& find_recipe(const std::string& name) { return find_recipe(recipe_rows(), name); }

}  // namespace gantrain
