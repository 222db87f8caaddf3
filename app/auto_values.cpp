// SPDX-License-Identifier: Apache-2.0
#include "auto_values.h"

#include <filesystem>

#include "schema.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// Returns the folder of the run that this one resumes, or "".
fs::path resumed_run(const Config& config) {
  const std::string resume = text_of(config.get("run.resume"));
  if (resume == "none") return {};
  if (resume == "auto") return text_of(config.get("run.run_dir"));
  return fs::is_directory(resume) ? fs::path(resume) : fs::path(resume).parent_path();
}

// What was chosen then: the values whose origin begins with "auto". How a batch is cut follows
// today's ranks.
bool keep_chosen(Config& config, const fs::path& run) {
  const fs::path file = run / "config.json";
  if (run.empty() || !fs::exists(file)) return false;
  const Json saved = parse_json(read_file(file), file.string(), Exit::kInput);
  bool kept = false;
  for (const Key& key : config.schema()) {
    if (!saved.contains("values") || !saved["values"].contains(key.path)) continue;
    const Json& entry = saved["values"][key.path];
    const std::string origin = entry.value("origin", "");
    const bool given = config.given(key.path) && config.get(key.path) != "auto";
    if (!starts_with(origin, "auto") || given || key.path == "train.micro_batch") continue;
    config.set(key.path, entry.at("value"), origin);
    kept = true;
  }
  return kept;
}

}  // namespace

std::vector<std::string> choose_auto_values(Config& config, int64_t ranks) {
  const RecipeFacts& recipe = find_recipe_facts(text_of(config.get("recipe")));
  if (recipe.complete == nullptr) return {};
  const fs::path run = resumed_run(config);
  const bool kept = keep_chosen(config, run);
  std::vector<std::string> lines = recipe.complete(config, ranks);
  if (kept) lines.push_back(fmt::format("auto    other values as {} began with", run.string()));
  return lines;
}

}  // namespace gantrain
