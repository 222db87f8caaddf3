// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/value.h"
#include "util/size.h"

namespace gantrain {

// What the files say of the model that finetuning begins at.
struct StartingModel {
  std::filesystem::path path;  // for --init-from: the run folder, or the model file
  std::string recipe;
  std::string preset;  // of the run that trained it; "" where it is not known
  Size resolution = {0, 0};
  int64_t channels = 0;  // of its pictures; 0: it is not said
  int64_t depth = 8;     // bits of its pictures
  int64_t level = 0;     // pixels that a growing network had reached; 0: all, or it does not grow
  int64_t classes = 0;   // that it is conditioned on
  double kimg = 0;       // that it was trained for; 0: it is not said
  bool has_discriminator = false;
  bool adaptive = true;           // RecipeFacts::adaptive, which the caller knows
  std::vector<std::string> sets;  // values of the configuration that make such networks, for --set
};

// Whether that file is a network pickle, which is imported first.
bool is_pickle(const std::filesystem::path& file);

// Reads a run folder or a model file (.safetensors), whose run's config.json is used where it lies
// beside it; else the names of "gantrain.model" are those of keys. `keys` are the keys of a
// recipe's configuration. Throws UserError(kInput) that names the file where it does not say what
// it is.
using KeysOfRecipe = std::vector<std::string> (*)(const std::string& recipe);
StartingModel read_starting_model(const std::filesystem::path& file_or_run, KeysOfRecipe keys);

// A row of the table of finetuning: what so many pictures get.
struct FinetuneRule {
  int64_t most_pictures;  // of the row
  double kimg;            // length, at most
  double frozen;          // share of D's resolutions, from the picture on, that stay as they are
  bool mirror;            // each picture flipped, too
};

// The table, fewest pictures first; its source has where each column comes from.
const std::vector<FinetuneRule>& finetune_rules();
const FinetuneRule& rule_for(int64_t pictures);

// How many of D's layers, from the picture on, stand in that share of its resolutions.
int64_t layers_in(double share, int64_t nominal_resolution);

// A value that finetuning chooses, and why.
struct FinetuneChoice {
  std::string pair;  // "RECIPE.freeze_d=10", as --set takes it
  std::string why;   // with its source
};

// What is chosen for a training of `config`, which has the model's recipe and sizes and what the
// recipe itself chooses, on so many pictures, with the metric that decides. Keys that the recipe
// does not have are left out.
std::vector<FinetuneChoice> finetune_choices(const Config& config,
                                             const StartingModel& model,
                                             int64_t pictures,
                                             const std::string& metric);

}  // namespace gantrain
