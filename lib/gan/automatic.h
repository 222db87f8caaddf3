// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"
#include "gan/recipe_facts.h"

namespace gantrain {

// Sets keys whose values a recipe chooses; a key's value afterwards is the one that counts.
class Chooser {
 public:
  // `why` is the origin of what is chosen; it begins with "auto".
  Chooser(Config& config, std::string why) : config_(config), why_(std::move(why)) {}

  // Unless the user has set it.
  void choose(const std::string& key, const Json& value) {
    if (!config_.given(key)) set(key, value);
  }
  // Unless a preset or the user has set it.
  void choose_default(const std::string& key, const Json& value) {
    if (config_.origin(key) == "default") set(key, value);
  }
  // What was chosen: "train.batch 32, G.adam.lr 0.002".
  const std::string& said() const { return said_; }

 private:
  void set(const std::string& key, const Json& value);

  Config& config_;
  std::string why_;
  std::string said_;
};

// What the reference code of style-based networks does on GPUs and only there: half-precision
// blocks at the highest resolutions, RECIPE.num_fp16_res of them, and three loading threads. The
// blocks compute in `type`, a value of precision.amp. --amp alone means such blocks too; --amp=fp16
// and bf16 ask for autocast. Returns what was chosen, or
// "".
std::string choose_for_gpu(Config& config, const std::string& recipe, const char* type = "fp16");

// Cuts a rank's batch into micro-batches of at most RECIPE.max_micro_batch images, multiples of
// RECIPE.mbstd_group where they can be. A GPU takes all of them at once where they fit, unless the
// user has set this limit.
void choose_micro_batch(Config& config, const Site& site, const std::string& recipe);

}  // namespace gantrain
