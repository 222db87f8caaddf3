// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/options.h"

namespace gantrain {

// What becomes of the models that a run writes at its saves. The keys are in the section save.
struct ModelOptions {
  std::string keep = "all";
  bool raw = false;
};

template <class Field>
void fields(ModelOptions& o, Field&& field) {
  field("keep_models",
        o.keep,
        "models kept: all; N, the newest ones; best, the newest one beside model-best.safetensors "
        "(see keep_best); those of keep_every stay, too");
  field("raw",
        o.raw,
        "models hold the raw networks (G.*, D.*) beside the generator's average; states always do");
}

// Returns how many of the newest models are kept; nothing: all. Throws UserError(kUsage) for what
// is no such number, and for "best" where no metric says which one is.
std::optional<int64_t> models_kept(const ModelOptions& models, const SaveOptions& save);

}  // namespace gantrain
