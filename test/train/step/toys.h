// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "support/step_setup.h"
#include "train/step/sync_recipes.h"
#include "train/step/three_networks.h"
#include "train/step/toy_recipe.h"

namespace gantrain {

// A toy recipe with some configuration, for laws that all of them obey. All take toy_pictures(8).
struct ToyCase {
  std::string name;
  RecipeRow row;
  Config (*config)(const std::map<std::string, Json>& changes);
  std::map<std::string, Json> changes = {};
  // Phases may leave parameters out, so reducers search for them (dist.find_unused).
  bool searches = false;

  Config config_with(const std::map<std::string, Json>& more) const {
    std::map<std::string, Json> all = changes;
    for (const auto& [key, value] : more) all[key] = value;
    return config(all);
  }
};

inline std::vector<ToyCase> all_toys() {
  const char* ramp = R"({"from": 4, "to": 0.5, "kimg": 0.1})";
  return {{"toy", toy_row(), toy_config, {{"toy.promises", true}}},
          {"toy that hands over",
           toy_row(),
           toy_config,
           {{"toy.promises", true}, {"toy.hands_over", true}}},
          {"parts", parts_row(), parts_config, {}, /*searches=*/true},
          {"growing", growing_row(), growing_config},
          {"three networks",
           three_networks_row(),
           three_networks_config,
           {{"three.gamma", ramp}},
           /*searches=*/true}};
}

}  // namespace gantrain
