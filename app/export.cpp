// SPDX-License-Identifier: Apache-2.0
#include "draw/draw.h"
#include "exchange/python_source.h"
#include "export_card.h"
#include "export_config.h"
#include "trainer_verbs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// Another program's files, a run's above all, are not written over.
void check_folder(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  std::error_code error;
  if (!fs::exists(file, error)) return;
  const Json config = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (config.is_object() && config.value("format", Json()) == "gantrain-generator") return;
  fail(Exit::kUsage,
       "-o {}: has a config.json of something else, perhaps a run; give another folder",
       folder.string());
}

// The seeds 0 to 15 side by side.
void draw_grid(ExportedModel& exported, const fs::path& folder) {
  GenerateRequest request;
  request.how.model = exported.file.string();
  request.how.level = exported.model.level;
  request.how.alpha = exported.model.alpha;
  constexpr int64_t kPictures = 16;
  request.seeds.add(0, kPictures - 1);
  if (exported.model.generator->classes() > 0) request.how.classes = "0";
  request.grid = (folder / "grid.png").string();
  draw_pictures(*exported.model.generator, request, exported.model.classes);
}

// A card that is there has perhaps been edited.
void write_card(const fs::path& folder, const std::string& card) {
  const fs::path file = folder / "README.md";
  std::error_code error;
  if (!fs::exists(file, error)) return write_file(file, card);
  if (read_file(file) != card) warn("{}: is kept as it is; remove it for a new one", file.string());
}

}  // namespace

int export_model(const ExportRequest& request) {
  const fs::path folder = request.output;
  check_folder(folder);
  ExportedModel exported = load_exported(request.model);
  const Json config = config_of(exported);
  const Json self_test = self_test_of(exported);
  const std::string card = card_of(exported, config);
  make_writable_folder(folder);
  save_safetensors(folder / "model.safetensors", exported.tensors, exported.metadata);
  write_file(folder / "config.json", config.dump(2) + "\n");
  write_file(folder / "self_test.json", self_test.dump() + "\n");
  write_file(folder / "model.py", python_program(exported.recipe));
  draw_grid(exported, folder);
  write_card(folder, card);
  info("{}: {} in Python, {} tensors; README.md waits for a licence",
       folder.string(),
       exported.recipe,
       exported.tensors.size());
  info("next    python {} --self-test", shell_quote((folder / "model.py").string()));
  return 0;
}

}  // namespace gantrain
