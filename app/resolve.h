// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace gantrain {

// What stands on the command line of `train`.
struct ConfigSources {
  std::string preset;
  std::string config_file;
  // In the order of the command line: a flag as the table names it and its value, or "--set" and
  // "a.b=v". The later one wins.
  std::vector<std::pair<std::string, std::string>> flags;
  bool smoke = false;
};

// All layers, lowest first: defaults, preset and its bases, file, environment, flags and --set;
// then --lr-scale. Throws UserError(kUsage) naming the key and where the value came from.
Config resolve(const ConfigSources& request, const std::map<std::string, std::string>& environment);

// The configuration that another process of this run has as JSON, origins included.
Config config_from_json(const Json& json);

// The preset that is used when none is named.
inline constexpr const char* kDefaultPreset = "dcgan";

}  // namespace gantrain
