// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "tune/starting_model.h"

namespace gantrain {

// A row of the table of finetuning: what so many pictures get.
struct FinetuneRule {
  int64_t most_pictures;  // of the row
  double kimg;            // length, at most
  double frozen;          // share of D's resolutions, from the picture on, that stay as they are
  double ada_start;       // strength of the augmentation at the start
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

// What is chosen for a training of `config`, which has the model's recipe and sizes, on so many
// pictures, with the metric that decides. Keys that the recipe does not have are left out.
std::vector<FinetuneChoice> finetune_choices(const Config& config,
                                             const StartingModel& model,
                                             int64_t pictures,
                                             const std::string& metric);

}  // namespace gantrain
