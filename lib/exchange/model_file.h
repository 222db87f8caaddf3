// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "gan/class_table.h"
#include "gan/generator.h"
#include "gan/model_json.h"
#include "gan/recipe_table.h"

namespace gantrain {

struct ModelFile {
  std::unique_ptr<Generator> generator;  // in evaluation mode, on the CPU
  // Of a file that was written while its networks were still growing: pixels of their stage, and
  // the weight of that stage's newest layers.
  std::optional<int64_t> level;
  std::optional<double> alpha;
  ClassTable classes;  // "gantrain.classes"; empty where the file does not have it
};

// The generator in a model file (.safetensors). Its recipe is what "gantrain.model" in the file
// says, else the one of `recipes` that recognises the tensors. Throws UserError(kInput) naming the
// file, and the tensor that does not fit.
ModelFile load_generator(const std::filesystem::path& file, const RecipeTable& recipes);

// Writes a model file that load_generator() and --init-from read. Throws UserError(kDisk).
void save_model(const std::filesystem::path& file, const ModelContent& model);

}  // namespace gantrain
