// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "gan/recipe.h"

namespace gantrain {

struct ModelFile {
  std::unique_ptr<Generator> generator;  // in evaluation mode, on the CPU
  // {"level": pixels, "alpha": weight} if its networks were still growing when it was written.
  Json drawing = Json::object();
};

// The generator in a model file, or in the newest model of a run folder. The recipe is what
// "gantrain.model" says, else the one whose tensors these are. Throws UserError(kInput) naming the
// file, and the tensor that does not fit.
ModelFile load_generator(const std::filesystem::path& file_or_run);

}  // namespace gantrain
