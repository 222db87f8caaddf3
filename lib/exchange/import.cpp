// SPDX-License-Identifier: Apache-2.0
#include "exchange/import.h"

#include <cstring>

#include "core/safetensors.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "exchange/official_pickle.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

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
  const bool known =
      recipe.empty() || recipe == "stylegan2" || recipe == "stylegan3" || recipe == "r3gan";
  if (!known) {
    fail(Exit::kInput,
         "{}: --recipe {}: network pickles are of stylegan2, stylegan3 and r3gan",
         input,
         recipe);
  }
  ModelContent model = read_official_pickle(content, input);
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
