// SPDX-License-Identifier: Apache-2.0
#include "schema.h"

#include "data/options.h"
#include "distributed/options.h"
#include "gan/precision_options.h"
#include "launch/options.h"
#include "recipes/dcgan/options.h"
#include "recipes/pggan/options.h"
#include "recipes/stylegan1/options.h"
#include "recipes/stylegan2/options.h"
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

// Progressive networks.
void check_growing(int64_t resolution) {
  const bool power_of_two = (resolution & (resolution - 1)) == 0;
  if (power_of_two && resolution >= 4 && resolution <= 1024) return;
  fail(Exit::kUsage,
       "data.resolution = {}: networks that grow by doubling are built for powers of two from 4 to "
       "1024",
       resolution);
}

}  // namespace

const std::vector<RecipeKeys>& recipe_keys() {
  static const std::vector<RecipeKeys> table = {
      {"dcgan", dcgan::add_keys, dcgan::check_resolution, /*conditional=*/false, nullptr},
      {"pggan",
       pggan::add_keys,
       check_growing,
       /*conditional=*/false,
       pggan::complete,
       schedule_of},
      {"stylegan1",
       stylegan1::add_keys,
       check_growing,
       /*conditional=*/true,
       stylegan1::complete,
       schedule_of},
      {"stylegan2",
       stylegan2::add_keys,
       stylegan2::check_resolution,
       /*conditional=*/true,
       stylegan2::complete,
       /*schedule=*/nullptr,
       /*has_blocks=*/true},
  };
  return table;
}

const RecipeKeys& find_recipe_keys(const std::string& name) {
  std::vector<std::string> known;
  for (const RecipeKeys& row : recipe_keys()) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  fail(Exit::kUsage, "recipe = {}: there is {}", name, join(known, ", "));
}

Schema full_schema(const std::string& recipe) {
  Schema schema;
  add_keys<HeaderOptions>(schema, "");
  add_keys<TrainOptions>(schema, "train.");
  add_keys<DataOptions>(schema, "data.");
  find_recipe_keys(recipe).add_keys(schema);
  add_keys<OptimOptions>(schema, "optim.");
  add_keys<PrecisionOptions>(schema, "precision.");
  add_keys<EmaOptions>(schema, "ema.");
  add_keys<DistOptions>(schema, "dist.");
  add_keys<LaunchOptions>(schema, "launch.");
  add_keys<RunOptions>(schema, "run.");
  add_keys<SaveOptions>(schema, "save.");
  add_keys<SampleOptions>(schema, "samples.");
  add_keys<MetricsOptions>(schema, "metrics.");
  return schema;
}

}  // namespace gantrain
