// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "gan/schedule.h"
#include "util/size.h"

namespace gantrain {

// What automatic values depend on besides the configuration.
struct Site {
  int64_t ranks = 1;    // of the whole run
  bool on_gpu = false;  // each rank computes on a GPU
};

// What is known of a recipe without LibTorch, so that the thin program can use it. Each recipe has
// one such record, facts() in its options.h; app/schema.cpp lists them. The part that computes is
// RecipeRow (gan/recipe.h), which refers to this record.
struct RecipeFacts {
  std::string name;
  // Adds all configuration keys of the recipe with their defaults.
  void (*add_keys)(Schema& schema) = nullptr;
  // Throws UserError(kUsage) unless networks can be built for pictures of that size.
  void (*check_resolution)(const Size& resolution) = nullptr;
  // Whether data.cond=auto uses the labels that the data has; null: the recipe is unconditional.
  bool (*wants_labels)(const Config& config) = nullptr;
  // Fills in automatic values for a run at `site`, and returns lines that say what was chosen and
  // why. The origin of a chosen value begins with "auto"; values that already have such an origin
  // stay. Throws UserError(kUsage) for values that contradict each other. Null: there is nothing to
  // choose.
  std::vector<std::string> (*complete)(Config& config, const Site& site) = nullptr;
  // Returns the stages of growth from a complete configuration; null: the networks never grow.
  Schedule (*schedule)(const Config& config) = nullptr;
  // Whether the recipe has half-precision blocks of its own, which precision.mode=blocks uses.
  bool has_blocks = false;
  bool bfloat16_blocks = false;  // these are bfloat16, not float16
  // Whether `gantrain import FILE --recipe NAME` can read safetensors files whose tensors have the
  // names of the authors' own variables.
  bool has_official_names = false;

  // Whether the recipe can use labels at all.
  bool conditional() const { return wants_labels != nullptr; }
};

}  // namespace gantrain
