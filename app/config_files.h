// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// One layer of a configuration file: the file itself, or a file that it extends.
struct ConfigLayer {
  std::string origin;  // "file own.json", or "preset own.json"
  bool is_preset;      // it has a line "about", as presets do: its values are not the user's
  Json values;         // without "base" and "about"
};

// A file of --config with what it extends. "base" names a preset, or another file by a path from
// the folder of the file that names it.
struct ConfigFile {
  std::vector<ConfigLayer> layers;  // the furthest base first, the file itself last
  std::string preset;               // the preset at the end of the chain of bases; "" if none is
  std::string preset_origin;        // "base of file own.json"
};

// Reads the file and its bases; "" gives no layers. Throws UserError(kUsage) that names the file
// for one that cannot be read or is not JSON, an unknown base, and bases that run in a circle.
ConfigFile read_config_file(const std::string& path);

}  // namespace gantrain
