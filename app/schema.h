// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "gan/schedule.h"

namespace gantrain {

// What the program without torch knows of a recipe. The other half of its row is in recipes.cpp; a
// new recipe adds one row to each.
struct RecipeKeys {
  std::string name;
  void (*add_keys)(Schema& schema);
  void (*check_resolution)(int64_t resolution);
  bool conditional;  // can use labels
  // Chooses what is left to choose for that many ranks (origins "auto ..."; what has such an origin
  // stays), says what and why;
  // null: nothing to choose.
  std::vector<std::string> (*complete)(Config& config, int64_t ranks);
  // Of networks that grow, from a complete configuration; null: one stage for ever.
  Schedule (*schedule)(const Config& config) = nullptr;
  bool has_blocks = false;  // half-precision blocks of its own: precision.mode=blocks
};

const std::vector<RecipeKeys>& recipe_keys();
// Throws UserError(kUsage) naming the recipes there are.
const RecipeKeys& find_recipe_keys(const std::string& name);

// Every key of a run of that recipe with its default.
Schema full_schema(const std::string& recipe);

}  // namespace gantrain
