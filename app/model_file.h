// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "gan/recipe.h"

namespace gantrain {

// The generator in a model file, in evaluation mode on the CPU, or in the newest model of a run
// folder. The recipe is what "gantrain.model" says, else the one whose tensors these are.
// Throws UserError(kInput) naming the file, and the tensor that does not fit.
std::unique_ptr<Generator> load_generator(const std::filesystem::path& file_or_run);

}  // namespace gantrain
