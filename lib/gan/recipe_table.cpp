// SPDX-License-Identifier: Apache-2.0
#include "gan/recipe_table.h"

#include "util/error.h"

namespace gantrain {

const RecipeRow& find_recipe(const RecipeTable& recipes,
                             const std::string& name,
                             const std::string& said_by) {
  for (const RecipeRow& row : recipes) {
    if (row.facts.name == name) return row;
  }
  fail(Exit::kInput, "{}recipe {} is not known to this version", said_by, name);
}

}  // namespace gantrain
