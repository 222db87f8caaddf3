// SPDX-License-Identifier: Apache-2.0
#include "model_file.h"

#include "core/safetensors.h"
#include "recipes.h"
#include "train/run_folder.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

const RecipeRow& recipe_of(const fs::path& path, const TensorFile& file, const Json& model) {
  if (model.is_object() && model.contains("recipe")) return find_recipe(text_of(model["recipe"]));
  for (const RecipeRow& row : recipe_rows()) {
    if (row.recognises(file.tensors)) return row;
  }
  fail(
      Exit::kInput,
      "{}: no generator of a known recipe (no gantrain.model in its metadata, and the tensor names "
      "fit none)",
      path.string());
}

}  // namespace

ModelFile load_generator(const fs::path& file_or_run) {
  const fs::path path = find_model(file_or_run);
  const TensorFile file = load_safetensors(path);
  Json model;
  if (const auto at = file.metadata.find("gantrain.model"); at != file.metadata.end()) {
    model = parse_json(at->second, path.string() + " (gantrain.model)", Exit::kInput);
  }
  const RecipeRow& recipe = recipe_of(path, file, model);
  ModelFile loaded{recipe.make_generator(model, file.tensors, path.string())};
  loaded.generator->load(file.tensors, path.string());
  for (const char* key : {"level", "alpha"}) {
    const auto at = file.metadata.find(std::string("gantrain.") + key);
    if (at == file.metadata.end()) continue;
    loaded.drawing[key] =
        parse_json(at->second, fmt::format("{} (gantrain.{})", path.string(), key), Exit::kInput);
    if (!loaded.drawing[key].is_number())
      fail(Exit::kInput, "{}: gantrain.{} = {}: no number", path.string(), key, at->second);
  }
  return loaded;
}

}  // namespace gantrain
