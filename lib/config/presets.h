// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// A preset: presets/NAME.json, part of the program. "base" names the preset that it starts from,
// "recipe" the model family, "about" is one line for lists; the rest is configuration.
struct Preset {
  std::string name;
  std::string text;  // the file, comments and all
};

// All presets by name (generated from presets/*.json at build time).
const std::vector<Preset>& presets();
std::vector<std::string> preset_names();

// Layers of a preset from its furthest base to itself; each without "base" and "about".
// Throws UserError(kUsage) for an unknown name (with the nearest) or a base chain in a circle.
struct PresetLayer {
  std::string name;
  Json values;
};
std::vector<PresetLayer> preset_layers(const std::string& name);

// The recipe and the one-line description, found along the chain of bases.
std::string preset_recipe(const std::string& name);
std::string preset_about(const std::string& name);

}  // namespace gantrain
