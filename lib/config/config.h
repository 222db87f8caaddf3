// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/schema.h"
#include "config/value.h"

namespace gantrain {

// All keys of a run with their values and the origins of these values. A later set() replaces an
// earlier one, so layers are added in the order default < preset < file < environment < flag.
class Config {
 public:
  explicit Config(Schema schema);

  // Sets a value. Throws UserError(kUsage) that names the key, the value, its origin and what is
  // allowed, or for an unknown key the nearest ones.
  void set(const std::string& path, const Json& value, const std::string& origin);
  // Sets the values of a nested ({"train": {"batch": 8}}) or dotted ({"train.batch": 8}) object, or
  // of a run's config.json. An object at the path of a key is the key's value (a ramp); any other
  // object is a section.
  void set_tree(const Json& tree, const std::string& origin);

  const Schema& schema() const { return schema_; }
  bool has(const std::string& path) const { return values_.count(path) != 0; }
  const Key& key(const std::string& path) const;
  const Json& get(const std::string& path) const;
  const std::string& origin(const std::string& path) const;
  // Whether a file, the environment or a flag gave the value, and not a default or a preset.
  bool given(const std::string& path) const;
  // Likewise, where it does not follow from another key: its origin does not begin with "auto".
  bool said_by_user(const std::string& path) const;

  // Reads the struct whose keys were added under its section, or under another prefix.
  template <class Options>
  Options read(const std::string& prefix = section_of<Options>()) const {
    Options options;
    const std::function<const Json*(const std::string&)> find = [this](const std::string& path) {
      const auto at = values_.find(path);
      return at == values_.end() ? nullptr : &at->second.value;
    };
    fields(options, detail::Reader{find, prefix});
    return options;
  }

  // Returns config.json: {"gantrain": version, "values": {key: {"value": ..., "origin": ...}}}.
  Json to_json() const;

 private:
  struct Entry {
    Json value;
    std::string origin;
    size_t key = 0;  // in the schema
  };
  Schema schema_;
  std::map<std::string, Entry> values_;  // by path
};

inline constexpr const char* kVersion = "0.1.0";

// Parses JSON with comments. Throws UserError(code) that names the file and the position, or the
// name that an object has twice.
Json parse_json(const std::string& text, const std::string& name, Exit code);

// What a run's config.json says of a key.
struct SavedValue {
  Json value;
  std::string origin;
};
struct SavedConfig {
  Json values;  // {key: {"value": ..., "origin": ...}}; null where there are none

  // Nothing, null and "" where the key is not there.
  std::optional<SavedValue> find(const std::string& key) const;
  Json value(const std::string& key) const;
  std::string text(const std::string& key) const;
};
// Reads the config.json of a run folder; without values where there is none, or `run` is "". One
// that cannot be read is refused with UserError(kInput) that names it, or is as if it were not
// there.
enum class Unreadable { kRefused, kIgnored };
SavedConfig read_saved_config(const std::filesystem::path& run, Unreadable unreadable);

// Sets values from GANTRAIN_* variables: GANTRAIN_TRAIN__BATCH=8 sets train.batch (in any case).
// Variables of the launcher and of scripts (GANTRAIN_CACHE_DIR) are ignored. Throws
// UserError(kUsage) for an unknown variable with a double underscore.
void set_from_environment(Config& config, const std::map<std::string, std::string>& environment);

// A key of `b` whose value differs from the one in `a`, or that `a` does not have.
struct Difference {
  std::string key, before, after;
};
std::vector<Difference> differences(const Config& a, const Config& b);

// The presets: presets/NAME.json, with their comments. "base" names the preset that one starts
// from, "recipe" the model family, and "about" is one line for lists; the rest is configuration.
const EmbeddedFiles& preset_files();
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
