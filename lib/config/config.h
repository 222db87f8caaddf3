// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/schema.h"

namespace gantrain {

// Every key of a run with its value and where that came from. Later set() calls win, so layers are
// put on in the order default < preset < file < environment < flag.
class Config {
 public:
  explicit Config(Schema schema);

  // Throws UserError(kUsage) naming the key, the value, its origin and what is allowed; an unknown
  // key names the nearest ones.
  void set(const std::string& path, const Json& value, const std::string& origin);
  // A nested ({"train": {"batch": 8}}) or dotted ({"train.batch": 8}) object, or a run's
  // config.json. An object that stands at a key is its value (a ramp), else a section.
  void set_tree(const Json& tree, const std::string& origin);

  const Schema& schema() const { return schema_; }
  bool has(const std::string& path) const { return index_.count(path) != 0; }
  const Key& key(const std::string& path) const;
  const Json& get(const std::string& path) const;
  const std::string& origin(const std::string& path) const;
  // True when a file, the environment or a flag gave the value, not a default or a preset.
  bool given(const std::string& path) const;

  // The struct whose keys were added under `prefix`.
  template <class Options>
  Options read(const std::string& prefix) const {
    Options options;
    const std::function<const Json*(const std::string&)> find = [this](const std::string& path) {
      const auto at = values_.find(path);
      return at == values_.end() ? nullptr : &at->second.value;
    };
    fields(options, detail::Reader{find, prefix});
    return options;
  }

  // config.json: {"gantrain": version, "values": {key: {"value": ..., "origin": ...}}}.
  Json to_json() const;

 private:
  struct Entry {
    Json value;
    std::string origin;
  };
  Schema schema_;
  std::map<std::string, size_t> index_;
  std::map<std::string, Entry> values_;
};

inline constexpr const char* kVersion = "0.1.0";

// JSON with comments; throws UserError(code) naming the file and the position, or the name that is
// twice in an object.
Json parse_json(const std::string& text, const std::string& name, Exit code);

// Values out of GANTRAIN_* variables: GANTRAIN_TRAIN__BATCH=8 is train.batch (any case). Variables
// of the launcher and of scripts (GANTRAIN_CACHE_DIR) are left alone; an unknown one with a double
// underscore is an error.
void set_from_environment(Config& config, const std::map<std::string, std::string>& environment);

// A key of `b` whose value is another one in `a`, or is not there.
struct Difference {
  std::string key, before, after;
};
std::vector<Difference> differences(const Config& a, const Config& b);

}  // namespace gantrain
