// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace gantrain {

// The parts of the command line of `train` that set values.
struct ConfigSources {
  std::string preset;
  std::string config_file;
  // Pairs in the order of the command line: a flag as the table names it and its value, or "--set"
  // and "a.b=v". A later one replaces an earlier one.
  std::vector<std::pair<std::string, std::string>> flags;
  bool smoke = false;
};

// Puts all layers together, lowest first: defaults, the preset and its bases, the file, the
// environment, flags and --set; then applies --lr-scale. Throws UserError(kUsage) that names the
// key and the origin of the value.
Config resolve(const ConfigSources& request, const std::map<std::string, std::string>& environment);

// Reads a configuration from the JSON of another process of this run, origins included.
Config config_from_json(const Json& json);

// The preset that is used when none is named.
inline constexpr const char* kDefaultPreset = "dcgan";

}  // namespace gantrain
