// SPDX-License-Identifier: Apache-2.0
#include "recipes.h"

#include "recipes/dcgan/recipe.h"
#include "recipes/pggan/recipe.h"
#include "recipes/stylegan1/recipe.h"
#include "recipes/stylegan2/recipe.h"
#include "util/error.h"

namespace gantrain {

const std::vector<RecipeRow>& recipe_rows() {
  static const std::vector<RecipeRow> table = {
      dcgan::row(),
      pggan::row(),
      stylegan1::row(),
      stylegan2::row(),
  };
  return table;
}

const RecipeRow& find_recipe(const std::string& name) {
  for (const RecipeRow& row : recipe_rows()) {
    if (row.name == name) return row;
  }
  fail(Exit::kInput, "recipe {} is not known to this version", name);
}

}  // namespace gantrain
