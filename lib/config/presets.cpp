// SPDX-License-Identifier: Apache-2.0
#include "config/presets.h"

#include <algorithm>

#include "config/config.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

const Preset& find_preset(const std::string& name) {
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
  }
  if (ends_with(name, ".json"))
    fail(
        Exit::kUsage, "--preset {}: presets have names; a file is read by --config {}", name, name);
  std::string hint = did_you_mean(name, preset_names());
  if (hint.empty()) hint = "; there are " + join(preset_names(), ", ");
  fail(Exit::kUsage, "unknown preset {}{}", name, hint);
}

Json preset_json(const std::string& name) {
  return parse_json(find_preset(name).text, "preset " + name, Exit::kInternal);
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

std::vector<PresetLayer> preset_layers(const std::string& name) {
  std::vector<PresetLayer> layers;
  std::string at = name;
  while (!at.empty()) {
    for (const PresetLayer& seen : layers) {
      if (seen.name == at)
        fail(Exit::kUsage, "preset {}: its bases run in a circle at {}", name, at);
    }
    Json values = preset_json(at);
    const std::string base = values.value("base", "");
    values.erase("base");
    values.erase("about");
    layers.push_back({at, std::move(values)});
    at = base;
  }
  std::reverse(layers.begin(), layers.end());
  return layers;
}

std::string preset_recipe(const std::string& name) {
  std::string recipe;
  for (const PresetLayer& layer : preset_layers(name))
    recipe = layer.values.value("recipe", recipe);
  return recipe;
}

std::string preset_about(const std::string& name) { return preset_json(name).value("about", ""); }

}  // namespace gantrain
