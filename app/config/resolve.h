// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/options.h"
#include "gan/recipe_facts.h"

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

// Fills in the values that the recipe chooses by resolution, number of ranks and device. A run
// folder that is resumed (run.run_dir, run.resume) keeps the values that the run began with,
// whatever ranks and device it has now, but for those that change nothing except its speed (how a
// batch is cut, loading threads). Returns lines that say what was chosen and why.
std::vector<std::string> choose_auto_values(Config& config, const Site& site);

// Returns the data options of the run that a model file belongs to, from the config.json beside it,
// with the data at `path` where that is not "". Returns nothing where neither names any data.
std::optional<DataOptions> data_of_run(const std::filesystem::path& model_file,
                                       const std::string& path);

}  // namespace gantrain
