// SPDX-License-Identifier: Apache-2.0
#include "exchange/import.h"

#include <algorithm>
#include <cstring>

#include "config/config.h"
#include "core/safetensors.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "exchange/official_pickle.h"
#include "util/error.h"
#include "util/file.h"
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

LoadedModel load_generator(const fs::path& path, const RecipeTable& recipes) {
  TensorFile file = load_safetensors(path);
  Json model;
  if (const auto at = file.metadata.find("gantrain.model"); at != file.metadata.end()) {
    model = parse_json(at->second, path.string() + " (gantrain.model)", Exit::kInput);
  }
  const RecipeRow& recipe = recipe_of(path, file, model, recipes);
  LoadedModel loaded;
  loaded.recipe = &recipe;
  loaded.generator = recipe.make_generator(model, file.tensors, path.string());
  refuse_nonfinite(file.tensors, path.string());
  loaded.generator->load(file.tensors, path.string());
  loaded.level = read_number<int64_t>(path, file, "gantrain.level");
  loaded.alpha = read_number<double>(path, file, "gantrain.alpha");
  if (const auto at = file.metadata.find("gantrain.classes"); at != file.metadata.end()) {
    const std::string source = path.string() + " (gantrain.classes)";
    loaded.classes = classes_from_json(parse_json(at->second, source, Exit::kInput), source);
  }
  loaded.metadata = std::move(file.metadata);
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
    fail(Exit::kInput,
         "{}: a safetensors file; say whose variables it has, --recipe {} (generate and "
         "--init-from take model files as they are)",
         input,
         join(known, " or "));
  fail(Exit::kInput,
       "{}: --recipe {}: safetensors files are read of {}",
       input,
       recipe,
       join(known, " and "));
}

ModelContent read_foreign(const std::string& input,
                          const std::string& recipe,
                          const RecipeTable& recipes) {
  const std::string content = read_file(input);
  if (content.empty()) fail(Exit::kInput, "{}: an empty file", input);
  switch (kind_of(content)) {
    case FileKind::kZip:
      fail(Exit::kInput,
           "{}: a zip, perhaps what torch.save wrote; network pickles (.pkl) are read",
           input);
    case FileKind::kSafetensors:
      return read_official(input, recipe, recipes);
    case FileKind::kOther:
      fail(Exit::kInput,
           "{}: not a network pickle; perhaps a web page or a pointer instead of the file itself",
           input);
    case FileKind::kPickle:
      break;
  }
  std::vector<std::string> known;
  for (const RecipeRow& row : recipes) {
    if (row.pickled != nullptr) known.push_back(row.facts.name);
  }
  if (!recipe.empty() && std::find(known.begin(), known.end(), recipe) == known.end()) {
    const std::string last = known.empty() ? "none" : known.back();
    if (!known.empty()) known.pop_back();
    fail(Exit::kInput,
         "{}: --recipe {}: network pickles are of {}{}{}",
         input,
         recipe,
         join(known, ", "),
         known.empty() ? "" : " and ",
         last);
  }
  ModelContent model = read_official_pickle(content, input, recipes);
  const std::string own = model.model["recipe"].get<std::string>();
  if (!recipe.empty() && own != recipe)
    fail(Exit::kInput, "{}: --recipe {}: it is a pickle of {}", input, recipe, own);
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
      "{} of {} pixels, {} channels, {} classes: {} tensors of the generator, {} of G, {} of D",
      model["recipe"].get<std::string>(),
      size("img_resolution", "resolution"),
      size("img_channels", "num_channels"),
      size("c_dim", "label_size"),
      generator,
      G,
      D);
}

}  // namespace gantrain
