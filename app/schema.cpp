// SPDX-License-Identifier: Apache-2.0
#include "schema.h"

#include "data/options.h"
#include "distributed/options.h"
#include "gan/precision_options.h"
#include "launch/options.h"
#include "recipes/dcgan/options.h"
#include "recipes/pggan/options.h"
#include "recipes/r3gan/options.h"
#include "recipes/stylegan1/options.h"
#include "recipes/stylegan2/options.h"
#include "recipes/stylegan3/options.h"
#include "train/model_options.h"
#include "train/options.h"
#include "util/error.h"
#include "util/text.h"

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

const std::vector<RecipeFacts>& recipe_facts() {
  static const std::vector<RecipeFacts> table = {
      dcgan::facts(),
      pggan::facts(),
      stylegan1::facts(),
      stylegan2::facts(),
      stylegan3::facts(),
      r3gan::facts(),
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

Schema full_schema(const std::string& recipe) {
  Schema schema;
  add_keys<HeaderOptions>(schema, "");
  add_keys<TrainOptions>(schema, "train.");
  add_keys<DataOptions>(schema, "data.");
  find_recipe_facts(recipe).add_keys(schema);
  add_keys<OptimOptions>(schema, "optim.");
  add_keys<PrecisionOptions>(schema, "precision.");
  add_keys<EmaOptions>(schema, "ema.");
  add_keys<DistOptions>(schema, "dist.");
  add_keys<LaunchOptions>(schema, "launch.");
  add_keys<RunOptions>(schema, "run.");
  add_keys<SaveOptions>(schema, "save.");
  add_keys<ModelOptions>(schema, "save.");
  add_keys<SampleOptions>(schema, "samples.");
  add_keys<MetricsOptions>(schema, "metrics.");
  return schema;
}

}  // namespace gantrain
