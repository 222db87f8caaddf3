// SPDX-License-Identifier: Apache-2.0
#include "config/full_schema.h"

#include "data/options.h"
#include "distributed/options.h"
#include "gan/options.h"
#include "launch/options.h"
#include "train/options.h"

namespace gantrain {

namespace {

// Which preset and recipe a run was started with.
struct HeaderOptions {
  std::string preset;
  std::string recipe;
};

template <class Field>
void fields(HeaderOptions& o, Field&& field) {
  field("preset", o.preset, "named starting point: gantrain presets list");
  field("recipe", o.recipe, "model family; a preset names it");
}

}  // namespace

std::vector<std::string> officially_named() {
  std::vector<std::string> names;
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (recipe.has_official_names) names.push_back(recipe.name);
  }
  return names;
}

Schema full_schema(const std::string& recipe) {
  Schema schema;
  add_keys<HeaderOptions>(schema);
  add_keys<TrainOptions>(schema);
  add_keys<DataOptions>(schema);
  find_recipe_facts(recipe).add_keys(schema);
  add_keys<OptimOptions>(schema);
  add_keys<PrecisionOptions>(schema);
  add_keys<EmaOptions>(schema);
  add_keys<DistOptions>(schema);
  add_keys<LaunchOptions>(schema);
  add_keys<RunOptions>(schema);
  add_keys<SaveOptions>(schema);
  add_keys<ModelOptions>(schema);
  add_keys<SampleOptions>(schema);
  add_keys<MetricsOptions>(schema);
  return schema;
}

}  // namespace gantrain
