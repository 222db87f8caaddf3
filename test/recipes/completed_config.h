// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/options.h"
#include "gan/options.h"
#include "gan/recipe_facts.h"
#include "train/options.h"

namespace gantrain {

// Keys of the run that the schedule of a growing recipe is chosen by.
struct RunKeys {
  int64_t batch = 64;
  std::string lr_scale = "none";
  int64_t resolution = 1024;
};

template <class Field>
void fields(RunKeys& o, Field&& field) {
  field("train.batch", o.batch, "");
  field("train.lr_scale", o.lr_scale, "");
  field("data.resolution", o.resolution, "");
}

// The recipe's defaults with all that it chooses for so many ranks.
inline Config completed(const RecipeFacts& facts, int64_t ranks) {
  Schema schema;
  add_keys<RunKeys>(schema);
  facts.add_keys(schema);
  Config config(schema);
  facts.complete(config, Site{.ranks = ranks});
  return config;
}

// All keys of a run of that recipe, with these values from `origin`.
inline Config run_config(const RecipeFacts& facts,
                         const std::map<std::string, Json>& values,
                         const std::string& origin) {
  Schema schema;
  add_keys<TrainOptions>(schema);
  add_keys<DataOptions>(schema);
  add_keys<EmaOptions>(schema);
  add_keys<PrecisionOptions>(schema);
  add_keys<RunOptions>(schema);
  facts.add_keys(schema);
  Config config(schema);
  for (const auto& [key, value] : values) config.set(key, value, origin);
  return config;
}

}  // namespace gantrain
