// SPDX-License-Identifier: Apache-2.0
#include "exchange/model_file.h"

#include "config/config.h"
#include "core/safetensors.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

const RecipeRow& recipe_of(const fs::path& path,
                           const TensorFile& file,
                           const Json& model,
                           const RecipeTable& recipes) {
  if (model.is_object() && model.contains("recipe"))
    return find_recipe(recipes, text_of(model["recipe"]), path.string() + ": gantrain.model: ");
  for (const RecipeRow& row : recipes) {
    if (row.recognises(file.tensors)) return row;
  }
  fail(
      Exit::kInput,
      "{}: no generator of a known recipe (no gantrain.model in its metadata, and the tensor names "
      "fit none)",
      path.string());
}

// A number of the file's metadata; none where it is not there.
template <class Number>
std::optional<Number> read_number(const fs::path& path,
                                  const TensorFile& file,
                                  const std::string& key) {
  const auto at = file.metadata.find(key);
  if (at == file.metadata.end()) return std::nullopt;
  const Json value =
      parse_json(at->second, fmt::format("{} ({})", path.string(), key), Exit::kInput);
  if (!value.is_number())
    fail(Exit::kInput, "{}: {} = {}: no number", path.string(), key, at->second);
  return value.get<Number>();
}

}  // namespace

ModelFile load_generator(const fs::path& path, const RecipeTable& recipes) {
  const TensorFile file = load_safetensors(path);
  Json model;
  if (const auto at = file.metadata.find("gantrain.model"); at != file.metadata.end()) {
    model = parse_json(at->second, path.string() + " (gantrain.model)", Exit::kInput);
  }
  const RecipeRow& recipe = recipe_of(path, file, model, recipes);
  ModelFile loaded{recipe.make_generator(model, file.tensors, path.string()), {}, {}, {}};
  refuse_nonfinite(file.tensors, path.string());
  loaded.generator->load(file.tensors, path.string());
  loaded.level = read_number<int64_t>(path, file, "gantrain.level");
  loaded.alpha = read_number<double>(path, file, "gantrain.alpha");
  if (const auto at = file.metadata.find("gantrain.classes"); at != file.metadata.end()) {
    const std::string source = path.string() + " (gantrain.classes)";
    loaded.classes = classes_from_json(parse_json(at->second, source, Exit::kInput), source);
  }
  return loaded;
}

void save_model(const fs::path& path, const ModelContent& model) {
  save_safetensors(
      path,
      {model.tensors.begin(), model.tensors.end()},
      {{"format", "pt"}, {"gantrain.model", model.model.dump()}, {"gantrain.version", kVersion}});
}

}  // namespace gantrain
