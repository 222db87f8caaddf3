// SPDX-License-Identifier: Apache-2.0
#include "gan/recipe.h"

#include "util/error.h"

namespace gantrain {

const Schedule& Recipe::schedule() const {
  static const Schedule one_stage;
  return one_stage;
}

TensorNames Recipe::names_in(const std::map<std::string, at::Tensor>&, const Player&) const {
  return [](const std::string& name) { return NameInFile(name); };
}

const RecipeRow& find_recipe(const RecipeTable& recipes,
                             const std::string& name,
                             const std::string& said_by) {
  for (const RecipeRow& row : recipes) {
    if (row.facts.name == name) return row;
  }
  fail(Exit::kInput, "{}recipe {} is not known to this version", said_by, name);
}

}  // namespace gantrain
