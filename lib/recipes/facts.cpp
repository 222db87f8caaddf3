// SPDX-License-Identifier: Apache-2.0
#include "recipes/facts.h"

#include "recipes/dcgan/options.h"
#include "recipes/pggan/options.h"
#include "recipes/projected/options.h"
#include "recipes/r3gan/options.h"
#include "recipes/stylegan1/options.h"
#include "recipes/stylegan2/options.h"
#include "recipes/stylegan3/options.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

const std::vector<RecipeFacts>& recipe_facts() {
  static const std::vector<RecipeFacts> table = {
      dcgan::facts(),
      pggan::facts(),
      stylegan1::facts(),
      stylegan2::facts(),
      stylegan3::facts(),
      r3gan::facts(),
      projected::facts(),
  };
  return table;
}

const RecipeFacts& find_recipe_facts(const std::string& name) {
  std::vector<std::string> known;
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (recipe.name == name) return recipe;
    known.push_back(recipe.name);
  }
  fail(Exit::kUsage, "recipe = {}: there is {}", name, join(known, ", "));
}

}  // namespace gantrain
