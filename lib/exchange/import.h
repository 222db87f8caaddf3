// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "gan/class_table.h"
#include "gan/model_json.h"
#include "gan/recipe.h"

namespace gantrain {

// A generator with what its model file says of it.
struct LoadedModel {
  std::unique_ptr<Generator> generator;  // in evaluation mode, on the CPU
  // Of a file that was written while its networks were still growing: pixels of their stage, and
  // the weight of that stage's newest layers.
  std::optional<int64_t> level;
  std::optional<double> alpha;
  ClassTable classes;                 // "gantrain.classes"; empty where the file does not have it
  int64_t depth = 8;                  // bits of its pictures: "gantrain.depth"
  const RecipeRow* recipe = nullptr;  // of the table that it was loaded with
  std::map<std::string, std::string> metadata;  // all of the file's

  // The JSON in the metadata of that key; none where the file does not have it.
  std::optional<Json> said(const std::string& path, const std::string& key) const;
};

// The generator in a model file (.safetensors). Its recipe is what "gantrain.model" in the file
// says, else the one of `recipes` that recognises the tensors. Throws UserError(kInput) naming the
// file, and the tensor that does not fit.
LoadedModel load_generator(const std::filesystem::path& file, const RecipeTable& recipes);

// Writes a model file that load_generator() and --init-from read. Throws UserError(kDisk).
void save_model(const std::filesystem::path& file, const ModelContent& model);

// The networks of a file that another program wrote: a network pickle, or safetensors with the
// official variables of the recipe that `recipe` names ("" where the file itself says what it has).
// The generator is built once, so that a tensor that is missing is named now and not when pictures
// are wanted. Throws UserError(kInput) naming the file and what does not fit.
ModelContent import_weights(const std::string& input,
                            const std::string& recipe,
                            const RecipeTable& recipes);

// Returns what is in a model file that load_generator() reads; nothing where the file is not one,
// such as a network pickle. Throws UserError(kInput) where it is one and is broken.
std::optional<TensorFile> read_model(const std::filesystem::path& file, const RecipeTable& recipes);

// "stylegan2 of 32 pixels, 3 channels, 0 classes: 5 tensors of the generator, 5 of G, 7 of D".
std::string describe_model(const ModelContent& model);

// The networks, of those of `recipes` that pickles hold, of a snapshot of StyleGAN2-ADA (PyTorch),
// of StyleGAN2 or StyleGAN3 in StyleGAN3's repository, or of R3GAN: a pickle of a dict whose G_ema,
// G and D are classes with their state. Nothing of it is executed, the Python source that lies in
// it is not used. G and D may be missing. Throws UserError(kInput) naming `source` and the key,
// module or tensor: other classes, architectures that gantrain does not have, anything the pickle
// machine refuses.
ModelContent read_official_pickle(std::string_view content,
                                  const std::string& source,
                                  const RecipeTable& recipes);

}  // namespace gantrain
