// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <cstring>

#include "core/tensors.h"
#include "gan/model_json.h"
#include "official_pickle.h"
#include "recipes.h"
#include "train/run_folder.h"
#include "trainer_verbs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

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

// The official networks of PGGAN and StyleGAN v1, as safetensors.
ModelContent read_official(const std::string& input, const std::string& recipe) {
  std::vector<std::string> known;
  for (const RecipeRow& row : recipe_rows()) {
    if (row.import_official != nullptr) known.push_back(row.name);
    if (row.name != recipe || row.import_official == nullptr) continue;
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

ModelContent read_foreign(const std::string& input, const std::string& recipe) {
  const std::string content = read_file(input);
  if (content.empty()) fail(Exit::kInput, "{}: an empty file", input);
  switch (kind_of(content)) {
    case FileKind::kZip:
      fail(Exit::kInput,
           "{}: a zip, perhaps what torch.save wrote; network pickles (.pkl) are read",
           input);
    case FileKind::kSafetensors:
      return read_official(input, recipe);
    case FileKind::kOther:
      fail(Exit::kInput,
           "{}: not a network pickle; perhaps a web page or a pointer instead of the file itself",
           input);
    case FileKind::kPickle:
      break;
  }
  if (!recipe.empty() && recipe != "stylegan2")
    fail(Exit::kInput, "{}: --recipe {}: network pickles are of stylegan2", input, recipe);
  return read_official_pickle(content, input);
}

// Builds the generator and copies the weights into it, so that what is missing is named now and not
// when pictures are wanted.
void check_it_loads(const ModelContent& imported, const std::string& input) {
  const Json& name = imported.model["recipe"];
  for (const RecipeRow& row : recipe_rows()) {
    if (name != row.name) continue;
    const auto generator = row.make_generator(imported.model, imported.tensors, input);
    load_into(*generator->network(), imported.tensors, input);
  }
}

std::string about(const ModelContent& imported) {
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

}  // namespace

int import_model(const Json& request) {
  const auto input = request.at("input").get<std::string>();
  const auto output = request.at("output").get<std::string>();
  const ModelContent imported = read_foreign(input, request.value("recipe", ""));
  check_it_loads(imported, input);
  save_safetensors(output,
                   {imported.tensors.begin(), imported.tensors.end()},
                   {{"format", "pt"},
                    {"gantrain.model", imported.model.dump()},
                    {"gantrain.version", kVersion}});
  info("{}: {}", output, about(imported));
  info("next    {}", generate_command(output));
  return 0;
}

}  // namespace gantrain
