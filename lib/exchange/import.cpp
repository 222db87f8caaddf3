// SPDX-License-Identifier: Apache-2.0
#include "exchange/import.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/torch.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace {

const RecipeRow& recipe_of(const std::string& path,
                           const TensorMap& tensors,
                           const Json& model,
                           const RecipeTable& recipes) {
  if (model.is_object() && model.contains("recipe"))
    return find_recipe(recipes, text_of(model["recipe"]), path + ": gantrain.model: ");
  for (const RecipeRow& row : recipes) {
    if (row.recognises(tensors)) return row;
  }
  refuse_file(path,
              "no generator of a known recipe (no gantrain.model in its metadata, and the tensor "
              "names fit none)");
}

// A number of the file's metadata; none where it is not there.
template <class Number>
std::optional<Number> read_number(const LoadedModel& model,
                                  const std::string& path,
                                  const std::string& key) {
  const auto value = model.said(path, key);
  if (!value) return std::nullopt;
  const bool whole = std::is_integral_v<Number>;
  if (whole ? !value->is_number_integer() : !value->is_number())
    refuse_file(path, "{} = {}: no {}number", key, model.metadata.at(key), whole ? "whole " : "");
  return value->get<Number>();
}

}  // namespace

std::optional<Json> LoadedModel::said(const std::string& path, const std::string& key) const {
  const auto at = metadata.find(key);
  if (at == metadata.end()) return std::nullopt;
  return parse_json(at->second, fmt::format("{} ({})", path, key), Exit::kInput);
}

LoadedModel load_generator(const fs::path& file, const RecipeTable& recipes) {
  const std::string path = file.string();
  TensorFile content = load_safetensors(file);
  LoadedModel loaded;
  loaded.metadata = std::move(content.metadata);
  const Json model = loaded.said(path, "gantrain.model").value_or(Json());
  loaded.recipe = &recipe_of(path, content.tensors, model, recipes);
  loaded.generator = loaded.recipe->make_generator(model, content.tensors, path);
  refuse_nonfinite(content.tensors, path);
  loaded.generator->load(content.tensors, path);
  loaded.level = read_number<int64_t>(loaded, path, "gantrain.level");
  loaded.alpha = read_number<double>(loaded, path, "gantrain.alpha");
  const std::vector<int64_t> levels = loaded.generator->levels();
  if (loaded.level && !contains(levels, *loaded.level))
    refuse_file(path, "gantrain.level = {}: this generator has no such stage", *loaded.level);
  if (loaded.alpha && !(*loaded.alpha >= 0 && *loaded.alpha <= 1))
    refuse_file(path, "gantrain.alpha = {}: 0 to 1 is allowed", *loaded.alpha);
  loaded.depth = read_number<int64_t>(loaded, path, "gantrain.depth").value_or(8);
  if (loaded.depth != 8 && loaded.depth != 16)
    refuse_file(path, "gantrain.depth = {}: 8 or 16 is needed", loaded.depth);
  if (const auto classes = loaded.said(path, "gantrain.classes"))
    loaded.classes = classes_from_json(*classes, path + " (gantrain.classes)");
  return loaded;
}

void save_model(const fs::path& path, const ModelContent& model) {
  save_safetensors(
      path,
      {model.tensors.begin(), model.tensors.end()},
      {{"format", "pt"}, {"gantrain.model", model.model.dump()}, {"gantrain.version", kVersion}});
}

namespace {

enum class FileKind { kPickle, kSafetensors, kZip, kOther };

FileKind kind_of(std::string_view content) {
  if (starts_with(content, "PK\3\4")) return FileKind::kZip;
  uint64_t header = 0;  // safetensors: its length, then a JSON object
  if (content.size() > 9) std::memcpy(&header, content.data(), sizeof header);
  // Protocol 2 and later say so; 0 and 1 begin with a dict and its mark.
  const bool pickle =
      starts_with(content, "\x80") || starts_with(content, "(d") || starts_with(content, "}");
  const bool safetensors = header > 1 && header <= content.size() - 8 && content[8] == '{';
  if (safetensors) return FileKind::kSafetensors;
  return pickle ? FileKind::kPickle : FileKind::kOther;
}

// Official networks as safetensors, of the recipes that have such files.
ModelContent read_official(const std::string& input,
                           const std::string& recipe,
                           const RecipeTable& recipes) {
  std::vector<std::string> known;
  for (const RecipeRow& row : recipes) {
    if (!row.facts.has_official_names) continue;
    known.push_back(row.facts.name);
    if (row.facts.name != recipe) continue;
    return row.import_official(load_safetensors(input), input);
  }
  if (recipe.empty())
    refuse_file(input,
                "a safetensors file; say whose variables it has, --recipe {} (generate and "
                "--init-from take model files as they are)",
                join(known, " or "));
  refuse_file(input, "--recipe {}: safetensors files are read of {}", recipe, join(known, " and "));
}

ModelContent read_foreign(const std::string& input,
                          const std::string& recipe,
                          const RecipeTable& recipes) {
  const std::string content = read_file(input);
  if (content.empty()) refuse_file(input, "an empty file");
  switch (kind_of(content)) {
    case FileKind::kZip:
      refuse_file(input, "a zip, perhaps what torch.save wrote; network pickles (.pkl) are read");
    case FileKind::kSafetensors:
      return read_official(input, recipe, recipes);
    case FileKind::kOther:
      refuse_file(
          input,
          "not a network pickle; perhaps a web page or a pointer instead of the file itself");
    case FileKind::kPickle:
      break;
  }
  std::vector<std::string> known;
  for (const RecipeRow& row : recipes) {
    if (row.pickled != nullptr) known.push_back(row.facts.name);
  }
  if (!recipe.empty() && !contains(known, recipe)) {
    const std::string last = known.empty() ? "none" : known.back();
    if (!known.empty()) known.pop_back();
    refuse_file(input,
                "--recipe {}: network pickles are of {}{}{}",
                recipe,
                join(known, ", "),
                known.empty() ? "" : " and ",
                last);
  }
  ModelContent model = read_official_pickle(content, input, recipes);
  const std::string own = model.model["recipe"].get<std::string>();
  if (!recipe.empty() && own != recipe)
    refuse_file(input, "--recipe {}: it is a pickle of {}", recipe, own);
  return model;
}

// Builds the generator and copies the weights into it.
void check_it_loads(const ModelContent& imported,
                    const std::string& input,
                    const RecipeTable& recipes) {
  const Json& name = imported.model["recipe"];
  for (const RecipeRow& row : recipes) {
    if (name != row.facts.name) continue;
    const auto generator = row.make_generator(imported.model, imported.tensors, input);
    refuse_nonfinite(imported.tensors, input);
    load_into(*generator->network(), imported.tensors, input);
  }
}

}  // namespace

ModelContent import_weights(const std::string& input,
                            const std::string& recipe,
                            const RecipeTable& recipes) {
  ModelContent imported = read_foreign(input, recipe, recipes);
  check_it_loads(imported, input, recipes);
  return imported;
}

std::optional<TensorFile> read_model(const fs::path& file, const RecipeTable& recipes) {
  if (lower(file.extension().string()) != ".safetensors") return std::nullopt;
  TensorFile content = load_safetensors(file);
  const bool known = content.metadata.count("gantrain.model") > 0 ||
                     std::any_of(recipes.begin(), recipes.end(), [&](const RecipeRow& row) {
                       return row.recognises(content.tensors);
                     });
  if (!known) return std::nullopt;
  load_generator(file, recipes);  // refuses a broken one
  return content;
}

std::string describe_model(const ModelContent& imported) {
  int64_t generator = 0, G = 0, D = 0;
  for (const auto& [name, tensor] : imported.tensors)
    ++(starts_with(name, "G.") ? G : starts_with(name, "D.") ? D : generator);
  const Json& model = imported.model;
  // StyleGAN2's names, and those of the networks before it.
  const auto size = [&](const char* name, const char* earlier) {
    return model.contains(name) ? model[name].dump() : model.value(earlier, Json(0)).dump();
  };
  return fmt::format(
      "{} of {} pixels; channels {}, classes {}; tensors: {} of the averaged generator, {} of G, "
      "{} "
      "of D",
      model["recipe"].get<std::string>(),
      size("img_resolution", "resolution"),
      size("img_channels", "num_channels"),
      size("c_dim", "label_size"),
      generator,
      G,
      D);
}

}  // namespace gantrain
