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

// Values that change nothing but the speed follow today's ranks and device.
bool is_about_speed(const std::string& key) {
  return key == "train.micro_batch" || key == "data.workers";
}

// Whether a run that began on a CPU left this value at its default, where a GPU would choose
// another.
bool was_left_on_a_cpu(const std::string& key, const std::string& origin, const Site& site) {
  if (!site.on_gpu || (key != "precision.amp" && key != "precision.mode")) return false;
  return origin == "default" || starts_with(origin, "preset ");
}

// Takes over the values that hold for the whole run, except those that are given now.
bool keep_chosen(Config& config, const fs::path& run, const Site& site) {
  const fs::path file = run / "config.json";
  if (run.empty() || !fs::exists(file)) return false;
  const Json saved = parse_json(read_file(file), file.string(), Exit::kInput);
  bool kept = false;
  for (const Key& key : config.schema()) {
    if (!saved.contains("values") || !saved["values"].contains(key.path)) continue;
    const Json& entry = saved["values"][key.path];
    const std::string origin = entry.value("origin", "");
    const bool given = config.given(key.path);
    const bool chosen = starts_with(origin, "auto") && !is_about_speed(key.path);
    if (chosen && (!given || config.get(key.path) == "auto")) {
      config.set(key.path, entry.at("value"), origin);
      kept = true;
    } else if (!given && was_left_on_a_cpu(key.path, origin, site)) {
      config.set(key.path, entry.at("value"), "auto (as the run began)");
      kept = true;
    }
  }
  return kept;
}

}  // namespace

std::vector<std::string> choose_auto_values(Config& config, const Site& site) {
  const RecipeFacts& recipe = find_recipe_facts(text_of(config.get("recipe")));
  if (recipe.complete == nullptr) return {};
  const fs::path run = resumed_run(config);
  const bool kept = keep_chosen(config, run, site);
  std::vector<std::string> lines = recipe.complete(config, site);
  if (kept) lines.push_back(fmt::format("auto    other values as {} began with", run.string()));
  return lines;
}

}  // namespace gantrain
