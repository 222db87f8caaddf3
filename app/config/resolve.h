// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/options.h"
#include "recipes/facts.h"

namespace gantrain {

// Returns the names of the recipes whose official variables `import` knows.
std::vector<std::string> officially_named();

// Returns every key of a run of that recipe with its default.
Schema full_schema(const std::string& recipe);

// Returns the full path of a key that was given in short: "gamma" is the recipe's weight of R1,
// "channel_base" the recipe's key of that name, "G.lr" the rate of the optimizer that G has, which
// `pairs` ("G.optimizer=sgd", later ones win) may choose. Returns other paths unchanged. Throws
// UserError(kUsage) for "gamma" where the recipe has none.
std::string full_key(const Config& config,
                     const std::string& path,
                     const std::vector<std::pair<std::string, std::string>>& pairs);

// Refuses keys that this run does not have with more than Config can say: which recipe has such a
// key, or which keys end so. `path` is one key; a tree is that of a file. Throws UserError(kUsage).
void check_key(const Config& config, const std::string& path, const std::string& origin);
void check_keys(const Config& config, const Json& tree, const std::string& origin);
// The same for GANTRAIN_* variables, which say keys in any case.
void check_keys(const Config& config, const std::map<std::string, std::string>& environment);
// Warns of GANTRAIN_TRAIN_BATCH, which would be a key with two underscores.
void warn_of_single_underscores(const Config& config,
                                const std::map<std::string, std::string>& environment);
// Warns of values that the user gives to an optimizer that is not the chosen one: G.adam.lr with
// G.optimizer=sgd.
void warn_of_other_optimizers(const Config& config);

// The parts of the command line of `train` that set values.
struct ConfigSources {
  std::string preset;
  std::string config_file;
  // Pairs in the order of the command line: a flag as the table names it and its value, or "--set"
  // and "a.b=v". A later one replaces an earlier one.
  std::vector<std::pair<std::string, std::string>> flags;
  bool smoke = false;
  bool tells = true;  // in messages, what is not taken over from a run's config.json
};

// Returns the key of a flag of the table, "train.batch" of "--batch"; "" where there is no such
// flag.
std::string key_of_flag(const std::string& name);

// Whether the value of --nproc or --nnodes is MIN:MAX, which sets a second key, KEY_min.
bool is_range(const std::string& flag, const std::string& value);

// Puts all layers together, lowest first: defaults, the preset and its bases, the file, the
// environment, flags and --set; then applies --lr-scale. Of a run's config.json the run folder,
// --resume and --force are left out, which are of that run alone. Throws UserError(kUsage) that
// names the key and the origin of the value.
Config resolve(const ConfigSources& request, const std::map<std::string, std::string>& environment);

// Lays flags over a configuration, in their order: {"--batch", "8"} or {"--set", "train.batch=8"}.
// Says where a short key of --set was taken for another one. Throws UserError(kUsage).
void set_from_flags(Config& config, const std::vector<std::pair<std::string, std::string>>& flags);

// Reads a configuration from the JSON of another process of this run, origins included.
Config config_from_json(const Json& json);

// The preset that is used when none is named.
inline constexpr const char* kDefaultPreset = "dcgan";

// Returns what the config.json of a run says of a key; nothing where it says nothing.
std::optional<SavedValue> saved_value(const std::filesystem::path& run, const std::string& key);

// Fills in the values that the recipe chooses by resolution, number of ranks and device. A run
// folder that is resumed (run.run_dir, run.resume) keeps the values that the run began with,
// whatever ranks and device it has now, but for those that change nothing except its speed (how a
// batch is cut, loading threads). Returns lines that say what was chosen and why.
std::vector<std::string> choose_auto_values(Config& config, const Site& site);

// Returns the data options of the run that a model file belongs to, from the config.json beside it,
// with the data at `path` where that is not "". Returns nothing where neither names any data.
std::optional<DataOptions> data_of_run(const std::filesystem::path& model_file,
                                       const std::string& path);

// Decides data.resolution where neither a flag, a file nor the environment gives it. A run that
// goes on keeps the size that it began with, and one that begins at other weights takes theirs.
// Else, where data.size_from allows it, it follows from the pictures: their size where at least
// half of them have it and the networks can make it; the preset's where they have to be reduced;
// else the size that the networks can make next to the pictures'. `look` is called only where the
// pictures matter, and may tell of none. Returns a line that says what was chosen and why, or "".
std::string choose_resolution(Config& config, const std::function<PictureSizes()>& look);

}  // namespace gantrain
