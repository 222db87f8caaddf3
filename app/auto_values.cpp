// SPDX-License-Identifier: Apache-2.0
#include "auto_values.h"

#include <filesystem>

#include "schema.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// The folder of the run that this one goes on with, or "".
fs::path resumed_run(const Config& config) {
  const std::string resume = text_of(config.get("run.resume"));
  if (resume == "none") return {};
  if (resume == "auto") return text_of(config.get("run.run_dir"));
  return fs::is_directory(resume) ? fs::path(resume) : fs::path(resume).parent_path();
}

// What was chosen then: the values whose origin begins with "auto".
size_t keep_chosen(Config& config, const fs::path& run) {
  const fs::path file = run / "config.json";
  if (run.empty() || !fs::exists(file)) return 0;
  const Json saved = parse_json(read_file(file), file.string(), Exit::kInput);
  size_t kept = 0;
  for (const Key& key : config.schema()) {
    if (!saved.contains("values") || !saved["values"].contains(key.path)) continue;
    const Json& entry = saved["values"][key.path];
    const std::string origin = entry.value("origin", "");
    if (!starts_with(origin, "auto") || config.given(key.path)) continue;
    config.set(key.path, entry.at("value"), origin);
    ++kept;
  }
  return kept;
}

}  // namespace

std::vector<std::string> choose_auto_values(Config& config, int64_t ranks) {
  const RecipeKeys& recipe = find_recipe_keys(text_of(config.get("recipe")));
  if (recipe.complete == nullptr) return {};
  const fs::path run = resumed_run(config);
  if (keep_chosen(config, run) == 0) return recipe.complete(config, ranks);
  return {fmt::format("auto    values as {} began with", run.string())};
}

}  // namespace gantrain
