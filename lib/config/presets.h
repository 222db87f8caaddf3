// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// A preset: presets/NAME.json, built into the program. "base" names the preset that it starts from,
// "recipe" the model family, and "about" is one line for lists; the rest is configuration.
struct Preset {
  std::string name;
  std::string text;  // the whole file with its comments
};

// All presets by name (generated from presets/*.json at build time).
const std::vector<Preset>& presets();
std::vector<std::string> preset_names();

// One layer of a preset, without "base" and "about". preset_layers() returns the layers from the
// furthest base to the preset itself. Throws UserError(kUsage) for an unknown name (with the
// nearest ones) or for bases that form a circle.
struct PresetLayer {
  std::string name;
  Json values;
};
std::vector<PresetLayer> preset_layers(const std::string& name);

// Return the recipe and the one-line description, which may come from a base.
std::string preset_recipe(const std::string& name);
std::string preset_about(const std::string& name);

}  // namespace gantrain
