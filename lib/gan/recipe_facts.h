// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "gan/schedule.h"

namespace gantrain {

// What can be said of a recipe without LibTorch, so that the thin program knows it too. Each recipe
// has one such record, facts() in its options.h; app/schema.cpp lists them. What computes stands in
// RecipeRow (gan/recipe.h), which refers to this record.
struct RecipeFacts {
  std::string name;
  // Adds all keys that are the recipe's own, with their defaults.
  void (*add_keys)(Schema& schema) = nullptr;
  // Throws UserError(kUsage) unless networks can be built for pictures of `resolution` pixels a
  // side.
  void (*check_resolution)(int64_t resolution) = nullptr;
  // Whether data.cond=auto uses the labels that the data has; null: the recipe is unconditional.
  bool (*wants_labels)(const Config& config) = nullptr;
  // Chooses, for a run of that many ranks, what is left to choose, and returns lines that say what
  // and why. Chosen values have an origin that begins with "auto"; a value that has such an origin
  // already stays as it is. Throws UserError(kUsage) for values that do not go together. Null:
  // there is nothing to choose.
  std::vector<std::string> (*complete)(Config& config, int64_t ranks) = nullptr;
  // When the networks grow, read from a complete configuration; null: they never do.
  Schedule (*schedule)(const Config& config) = nullptr;
  // Has half-precision blocks of its own, which precision.mode=blocks uses.
  bool has_blocks = false;
  // `gantrain import FILE --recipe NAME` reads safetensors whose tensors have the names of the
  // authors' own variables.
  bool has_official_names = false;

  // Whether the recipe can use labels at all.
  bool conditional() const { return wants_labels != nullptr; }
};

}  // namespace gantrain
