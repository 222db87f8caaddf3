// SPDX-License-Identifier: Apache-2.0
#include "config_files.h"

#include <algorithm>
#include <filesystem>

#include "config/config.h"
#include "config/presets.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

Json read_json(const std::string& path, const std::string& named_by) {
  std::string text;
  try {
    text = read_file(path == "-" ? "/dev/stdin" : path);
  } catch (const UserError& e) {
    fail(Exit::kUsage, "{} {}", named_by, e.what());
  }
  Json tree = parse_json(text, path, Exit::kUsage);
  if (!tree.is_object()) fail(Exit::kUsage, "{}: a JSON object is expected", path);
  return tree;
}

// Takes "base" and "about" out, which are no keys of a run. Returns the base.
std::string take_base(Json& tree, const std::string& path) {
  std::string base;
  for (const char* name : {"base", "about"}) {
    if (!tree.contains(name)) continue;
    if (!tree[name].is_string())
      fail(Exit::kUsage, "{}: {} = {}: a text is expected", path, name, tree[name].dump());
    if (std::string(name) == "base") {
      base = tree[name];
      if (base.empty())
        fail(Exit::kUsage, "{}: base is empty: a preset or a file is expected", path);
    }
    tree.erase(name);
  }
  return base;
}

bool is_preset(const std::string& name) {
  const std::vector<std::string> names = preset_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A base that is no preset is a file beside the one that names it.
std::string file_of_base(const std::string& base, const std::string& path) {
  const fs::path file = fs::path(path).parent_path() / base;
  std::error_code error;
  if (fs::exists(file, error)) return file.string();
  std::string hint = did_you_mean(base, preset_names());
  if (hint.empty()) hint = "; gantrain presets list shows the presets";
  fail(Exit::kUsage,
       "{}: base = {}: there is no preset and no file of that name ({}){}",
       path,
       base,
       file.string(),
       hint);
}

void refuse_circle(const std::vector<std::string>& chain, const std::string& next) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(next, error);
  for (const std::string& seen : chain) {
    if (fs::weakly_canonical(seen, error) != real) continue;
    fail(Exit::kUsage, "{}: bases run in a circle: {} -> {}", seen, join(chain, " -> "), next);
  }
}

}  // namespace

ConfigFile read_config_file(const std::string& path) {
  ConfigFile file;
  std::vector<std::string> chain;
  std::string named_by = "--config";
  for (std::string at = path; !at.empty();) {
    Json tree = read_json(at, named_by);
    chain.push_back(at);
    const bool preset = tree.contains("about");
    const std::string base = take_base(tree, at);
    file.layers.push_back({(preset ? "preset " : "file ") + at, preset, std::move(tree)});
    if (base.empty()) break;
    if (is_preset(base)) {
      file.preset = base;
      file.preset_origin = "base of file " + at;
      break;
    }
    const std::string next = file_of_base(base, at);
    refuse_circle(chain, next);
    named_by = at + ": base";
    at = next;
  }
  std::reverse(file.layers.begin(), file.layers.end());
  return file;
}

}  // namespace gantrain
