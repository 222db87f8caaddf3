// SPDX-License-Identifier: Apache-2.0
#include "resolve.h"

#include <cmath>

#include "config/presets.h"
#include "config_files.h"
#include "flags.h"
#include "key_spelling.h"
#include "schema.h"
#include "train/options.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// What --smoke stands for; flags may still change it.
const Json& smoke_values() {
  static const Json values = {{"data.resolution", 16},
                              {"launch.nproc", 2},
                              {"launch.device", "cpu"},
                              {"launch.threads", 1},
                              {"train.kimg", 2},
                              {"train.tick", 0.5},
                              {"save.every", 1},
                              {"samples.every", 1},
                              {"metrics.every", 1},
                              {"metrics.images", 256},
                              {"train.deterministic", true},
                              {"run.resume", "none"}};
  return values;
}

std::string key_of_flag(const std::string& name) {
  for (const Flag& flag : flag_table()) {
    for (const std::string& one : split(flag.names, ',')) {
      if (one == name) return flag.key;
    }
  }
  throw std::logic_error("no such flag: " + name);
}

// A value of a file's tree: "preset" itself, or as config.json of a run holds it.
std::string text_in(const Json& tree, const char* key) {
  if (tree.contains(key) && tree[key].is_string()) return tree[key];
  if (tree.contains("values") && tree["values"].contains(key))
    return tree["values"][key].value("value", "");
  return "";
}

// "preset" and "recipe" may also be named in a configuration file, "recipe" by --set.
struct Header {
  std::string preset;
  std::string preset_origin = "default";
  std::string recipe;
};

// The first layer from the top that names it.
std::string text_in(const ConfigFile& file, const char* key) {
  for (auto layer = file.layers.rbegin(); layer != file.layers.rend(); ++layer) {
    const std::string text = text_in(layer->values, key);
    if (!text.empty()) return text;
  }
  return "";
}

// The first that names one: --preset, --set, the environment, the file, the preset that it extends.
void find_preset(const ConfigSources& request,
                 const ConfigFile& file,
                 const std::map<std::string, std::string>& environment,
                 Header& header) {
  const auto take = [&](const std::string& preset, const std::string& origin) {
    if (!header.preset.empty() || preset.empty()) return;
    header.preset = preset;
    header.preset_origin = origin;
  };
  take(request.preset, "flag --preset");
  for (auto at = request.flags.rbegin(); at != request.flags.rend(); ++at) {
    if (at->first == "--set" && starts_with(at->second, "preset="))
      take(at->second.substr(7), "flag --set");
  }
  const auto variable = environment.find("GANTRAIN_PRESET");
  if (variable != environment.end()) take(variable->second, "environment GANTRAIN_PRESET");
  take(text_in(file, "preset"), "file " + request.config_file);
  take(file.preset, file.preset_origin);
  if (!file.preset.empty() && header.preset != file.preset) {
    fail(Exit::kUsage,
         "preset = {} ({}), but {} is preset {}; leave one out",
         header.preset,
         header.preset_origin,
         file.preset_origin,
         file.preset);
  }
}

Header find_header(const ConfigSources& request,
                   const ConfigFile& file,
                   const std::map<std::string, std::string>& environment) {
  Header header;
  find_preset(request, file, environment, header);
  header.recipe = text_in(file, "recipe");
  for (const auto& [flag, pair] : request.flags) {
    if (flag == "--set" && starts_with(pair, "recipe=")) header.recipe = pair.substr(7);
  }
  if (header.preset.empty() && header.recipe.empty()) {
    header.preset = request.smoke ? "dcgan-tiny" : kDefaultPreset;
    if (request.smoke) header.preset_origin = "flag --smoke";
  }
  if (!header.preset.empty()) {
    const std::string of_preset = preset_recipe(header.preset);
    if (header.recipe.empty()) header.recipe = of_preset;
    if (header.recipe != of_preset) {
      fail(Exit::kUsage,
           "recipe = {}, but preset {} is made for {}",
           header.recipe,
           header.preset,
           of_preset);
    }
  }
  return header;
}

void set_from_flags(Config& config, const std::vector<std::pair<std::string, std::string>>& flags) {
  for (const auto& [flag, value] : flags) {
    if (flag != "--set") {
      config.set(key_of_flag(flag), value, "flag " + flag);
      continue;
    }
    const size_t equals = value.find('=');
    if (equals == std::string::npos) fail(Exit::kUsage, "--set {}: key=value is expected", value);
    const std::string said = value.substr(0, equals);
    const std::string key = full_key(config, said, flags);
    if (key != said) info("taken   --set {} for --set {}", said, key);
    check_key(config, key, "flag --set");
    config.set(key, value.substr(equals + 1), "flag --set");
  }
}

// --lr-scale: learning rates follow the batch (Goyal et al. 2017: linear; or its root).
void scale_rates(Config& config, double preset_batch) {
  const auto batch = static_cast<double>(config.read<TrainOptions>("train.").batch);
  const std::string rule = text_of(config.get("train.lr_scale"));
  if (batch == preset_batch) return;
  // Of networks that grow each stage has its own batch and rates: choose_schedule() moves them.
  if (find_recipe_facts(text_of(config.get("recipe"))).schedule != nullptr) return;
  if (rule == "none") {
    info(
        "batch {} instead of the preset's {}: learning rates stay (--lr-scale linear|sqrt scales "
        "them)",
        number(batch),
        number(preset_batch));
    return;
  }
  const double factor = rule == "linear" ? batch / preset_batch : std::sqrt(batch / preset_batch);
  for (const Key& key : config.schema()) {
    if (!ends_with(key.path, ".lr") || config.given(key.path)) continue;
    const auto rate = Value<Scheduled>::from_text(text_of(config.get(key.path))).value();
    config.set(key.path,
               Value<Scheduled>::to_json(scaled(rate, factor)),
               fmt::format("--lr-scale {} (x {})", rule, number(factor)));
  }
}

}  // namespace

Config resolve(const ConfigSources& request,
               const std::map<std::string, std::string>& environment) {
  const ConfigFile file = read_config_file(request.config_file);
  const Header header = find_header(request, file, environment);
  Config config(full_schema(header.recipe));
  if (!header.preset.empty()) {
    for (const PresetLayer& layer : preset_layers(header.preset))
      config.set_tree(layer.values, "preset " + layer.name);
  }
  config.set("recipe", header.recipe, "preset " + header.preset);
  double preset_batch = config.get("train.batch").get<double>();
  for (const ConfigLayer& layer : file.layers) {
    check_keys(config, layer.values, layer.origin);
    config.set_tree(layer.values, layer.origin);
    if (layer.is_preset) preset_batch = config.get("train.batch").get<double>();
  }
  check_keys(config, environment);
  set_from_environment(config, environment);
  if (request.smoke) config.set_tree(smoke_values(), "flag --smoke");
  set_from_flags(config, request.flags);
  config.set("preset", header.preset, header.preset_origin);
  scale_rates(config, preset_batch);
  return config;
}

Config config_from_json(const Json& json) {
  const Json& values = json.at("values");
  Config config(full_schema(values.at("recipe").at("value").get<std::string>()));
  for (const auto& [key, entry] : values.items())
    config.set(key, entry.at("value"), entry.at("origin"));
  return config;
}

}  // namespace gantrain
