// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "config/resolve.h"
#include "data/options.h"
#include "distributed/options.h"
#include "gan/options.h"
#include "launch/options.h"
#include "train/options.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Which preset and recipe a run was started with.
struct HeaderOptions {
  std::string preset;
  std::string recipe;
};

template <class Field>
void fields(HeaderOptions& o, Field&& field) {
  field("preset", o.preset, "named starting point: gantrain presets list");
  field("recipe", o.recipe, "model family; a preset names it");
}

// The paths of all keys that end so.
std::vector<std::string> paths_in(const Schema& schema, const std::string& end) {
  std::vector<std::string> paths;
  for (const Key& key : schema) {
    if (ends_with(key.path, end)) paths.push_back(key.path);
  }
  return paths;
}

bool has_key(const Schema& schema, const std::string& path) {
  return std::ranges::any_of(schema, [&](const Key& key) { return key.path == path; });
}

// Recipes whose runs have the key.
std::vector<std::string> recipes_with(const std::string& path) {
  std::vector<std::string> names;
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (has_key(full_schema(recipe.name), path)) names.push_back(recipe.name);
  }
  return names;
}

std::vector<std::string> presets_of(const std::string& recipe) {
  std::vector<std::string> names;
  for (const std::string& preset : preset_names()) {
    if (preset_recipe(preset) == recipe) names.push_back(preset);
  }
  return names;
}

// The key of a recipe's weight of R1, or "".
std::string r1_key(const Schema& schema, const std::string& recipe) {
  for (const Key& key : schema) {
    if (key.path == recipe + ".gamma" || key.path == recipe + ".r1_gamma") return key.path;
  }
  return "";
}

std::string full_gamma(const Config& config) {
  const std::string recipe = text_of(config.get("recipe"));
  const std::string path = r1_key(config.schema(), recipe);
  if (!path.empty()) return path;
  std::vector<std::string> others;
  for (const RecipeFacts& other : recipe_facts()) {
    const std::string key = r1_key(full_schema(other.name), other.name);
    if (!key.empty()) others.push_back(key);
  }
  fail(Exit::kUsage,
       "gamma, the weight of the R1 penalty: recipe {} has none; there is {} in other recipes",
       recipe,
       join(others, ", "));
}

std::string optimizer_of(const Config& config,
                         const std::string& player,
                         const std::vector<std::pair<std::string, std::string>>& pairs) {
  const std::string start = player + ".optimizer=";
  for (auto at = pairs.rbegin(); at != pairs.rend(); ++at) {
    if (starts_with(at->second, start)) return at->second.substr(start.size());
  }
  return text_of(config.get(player + ".optimizer"));
}

void check_paths(const Config& config,
                 const Json& tree,
                 const std::string& prefix,
                 const std::string& origin) {
  for (const auto& [name, value] : tree.items()) {
    const std::string path = prefix + name;
    if (config.has(path)) continue;
    const bool section = value.is_object() && recipes_with(path).empty();
    if (section) {
      check_paths(config, value, path + ".", origin);
    } else {
      check_key(config, path, origin);
    }
  }
}

}  // namespace

std::vector<std::string> officially_named() {
  std::vector<std::string> names;
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (recipe.has_official_names) names.push_back(recipe.name);
  }
  return names;
}

Schema full_schema(const std::string& recipe) {
  Schema schema;
  add_keys<HeaderOptions>(schema);
  add_keys<TrainOptions>(schema);
  add_keys<DataOptions>(schema);
  find_recipe_facts(recipe).add_keys(schema);
  add_keys<OptimOptions>(schema);
  add_keys<PrecisionOptions>(schema);
  add_keys<EmaOptions>(schema);
  add_keys<DistOptions>(schema);
  add_keys<LaunchOptions>(schema);
  add_keys<RunOptions>(schema);
  add_keys<SaveOptions>(schema);
  add_keys<ModelOptions>(schema);
  add_keys<SampleOptions>(schema);
  add_keys<MetricsOptions>(schema);
  return schema;
}

std::string full_key(const Config& config,
                     const std::string& path,
                     const std::vector<std::pair<std::string, std::string>>& pairs) {
  if (config.has(path)) return path;
  if (path == "gamma") return full_gamma(config);
  const std::string of_recipe = text_of(config.get("recipe")) + "." + path;
  if (config.has(of_recipe)) return of_recipe;
  const std::string player = path.substr(0, path.find('.'));
  if (player.size() == path.size() || !config.has(player + ".optimizer")) return path;
  const std::string full =
      player + "." + optimizer_of(config, player, pairs) + path.substr(player.size());
  return config.has(full) ? full : path;
}

void check_key(const Config& config, const std::string& path, const std::string& origin) {
  const auto is_inside = [&](const Key& key) { return starts_with(key.path, path + "."); };
  if (config.has(path) || std::ranges::any_of(config.schema(), is_inside)) return;
  const std::string mine = text_of(config.get("recipe"));
  const std::vector<std::string> owners = recipes_with(path);
  if (!owners.empty()) {
    fail(Exit::kUsage,
         "unknown key {} ({}): it belongs to recipe {} (presets {}), and this run's recipe is {}{}",
         path,
         origin,
         join(owners, ", "),
         join(presets_of(owners.front()), ", "),
         mine,
         config.origin("preset") == "default" ? ", because no --preset was given" : "");
  }
  std::vector<std::string> elsewhere;  // a recipe's key that was given without the recipe's name
  for (const RecipeFacts& other : recipe_facts()) {
    const std::string full = other.name + "." + path;
    if (has_key(full_schema(other.name), full)) elsewhere.push_back(full);
  }
  if (!elsewhere.empty()) {
    fail(Exit::kUsage,
         "unknown key {} ({}): recipe {} has none; there is {}",
         path,
         origin,
         mine,
         join(elsewhere, ", "));
  }
  const std::string section = path.substr(0, path.find('.'));
  for (const RecipeFacts& other : recipe_facts()) {
    if (section == path || section != other.name || section == mine) continue;
    fail(Exit::kUsage,
         "unknown key {} ({}): keys of recipe {} begin so, this run's recipe is {}, and {} has "
         "none of that name{}",
         path,
         origin,
         other.name,
         mine,
         other.name,
         did_you_mean(path, paths_in(full_schema(other.name), "")));
  }
  if (!did_you_mean(path, paths_in(config.schema(), "")).empty()) return;  // Config says these
  const std::vector<std::string> alike =
      paths_in(config.schema(), "." + path.substr(path.rfind('.') + 1));
  if (alike.empty() || alike.size() > 6) return;
  fail(Exit::kUsage, "unknown key {} ({}); did you mean {}?", path, origin, join(alike, ", "));
}

void check_keys(const Config& config, const Json& tree, const std::string& origin) {
  if (!tree.is_object()) return;  // Config refuses it
  if (!tree.contains("gantrain") || !tree.contains("values"))
    return check_paths(config, tree, "", origin);
  if (!tree["values"].is_object()) return;
  for (const auto& [path, entry] : tree["values"].items()) check_key(config, path, origin);
}

void warn_of_single_underscores(const Config& config,
                                const std::map<std::string, std::string>& environment) {
  for (const auto& [name, text] : environment) {
    if (!starts_with(name, "GANTRAIN_") || name.find("__") != std::string::npos) continue;
    for (const Key& key : config.schema()) {
      if (key.path.find('.') == std::string::npos) continue;
      const std::string path = lower(join(split(key.path, '.'), "_"));
      if ("gantrain_" + path != lower(name)) continue;
      std::string meant = "GANTRAIN_" + join(split(key.path, '.'), "__");
      std::ranges::transform(meant, meant.begin(), [](unsigned char c) { return std::toupper(c); });
      warn("{} is no variable of gantrain; did you mean {}, which is {}?", name, meant, key.path);
    }
  }
}

void warn_of_other_optimizers(const Config& config) {
  for (const std::string player : {"G.", "D."}) {
    const std::string chosen = text_of(config.get(player + "optimizer"));
    for (const Key& key : config.schema()) {
      const std::vector<std::string> parts = split(key.path, '.');
      if (parts.size() != 3 || parts[0] + "." != player || parts[1] == chosen) continue;
      if (!config.said_by_user(key.path) || config.get(key.path) == key.value) continue;
      warn("{} ({}) does nothing: {}optimizer is {}",
           key.path,
           config.origin(key.path),
           player,
           chosen);
    }
  }
}

void check_keys(const Config& config, const std::map<std::string, std::string>& environment) {
  for (const auto& [name, text] : environment) {
    if (!starts_with(name, "GANTRAIN_") || name.find("__") == std::string::npos) continue;
    for (const RecipeFacts& recipe : recipe_facts()) {
      for (const Key& key : full_schema(recipe.name)) {
        std::string variable = "gantrain_" + lower(key.path);
        for (size_t dot = variable.find('.'); dot != std::string::npos; dot = variable.find('.'))
          variable.replace(dot, 1, "__");
        if (variable == lower(name)) check_key(config, key.path, "environment " + name);
      }
    }
  }
}

}  // namespace gantrain
