// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <algorithm>
#include <set>

#include "util/error.h"
#include "util/file.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

std::string range_text(const Check& check) {
  const bool low = check.min > -1e300;
  const bool high = check.max < 1e300;
  std::string text;
  if (check.power_of_two) text = "a power of two ";
  if (low && high) return text + shortest(check.min) + " to " + shortest(check.max);
  if (low) return text + "at least " + shortest(check.min);
  if (high) return text + "at most " + shortest(check.max);
  return text;
}

bool in_range(const Check& check, double value) {
  if (!(value >= check.min && value <= check.max)) return false;
  if (!check.power_of_two) return true;
  const auto whole = static_cast<int64_t>(value);
  return whole > 0 && (whole & (whole - 1)) == 0;
}

namespace {

// What a key allows, with a ramp as it is written in JSON.
std::string allowed_in_full(const Key& key) {
  constexpr std::string_view kRamp = "{from, to, kimg, shape}";
  std::string text = key.allowed();
  if (const size_t at = text.find(kRamp); at != std::string::npos) {
    text.replace(
        at, kRamp.size(), R"({"from": A, "to": B, "kimg": K, "shape": "linear"|"cosine"|"step"})");
  }
  return text;
}

}  // namespace

Config::Config(Schema schema) : schema_(std::move(schema)) {
  for (size_t i = 0; i < schema_.size(); ++i) {
    const Key& key = schema_[i];
    const bool fresh = values_.try_emplace(key.path, Entry{key.value, "default", i}).second;
    if (!fresh) throw std::logic_error("configuration key listed twice: " + key.path);
  }
}

void Config::set(const std::string& path, const Json& value, const std::string& origin) {
  const auto at = values_.find(path);
  if (at == values_.end()) {
    std::vector<std::string> paths;
    for (const Key& key : schema_) paths.push_back(key.path);
    const auto inside = std::ranges::find_if(
        paths, [&](const std::string& key) { return starts_with(key, path + "."); });
    if (inside != paths.end()) {
      fail(Exit::kUsage,
           "{} = {} ({}): an object is expected, whose keys are {} and others",
           path,
           text_of(value),
           origin,
           *inside);
    }
    const std::string hint = did_you_mean(path, paths);
    fail(Exit::kUsage,
         "unknown key {} ({}){}",
         path,
         origin,
         hint.empty() ? fmt::format("; {} help keys lists all", program()) : hint);
  }
  const Key& key = schema_[at->second.key];
  const auto normal = key.normalise(value);
  if (!normal) {
    std::string hint;
    if (value.is_string() && key.type.find('|') != std::string::npos) {
      hint = did_you_mean(value.get<std::string>(), split(key.type, '|'));
    }
    fail(Exit::kUsage,
         "{} = {} ({}): allowed: {}{}",
         path,
         text_of(value),
         origin,
         allowed_in_full(key),
         hint);
  }
  at->second.value = *normal;
  at->second.origin = origin;
}

namespace {

// config.json of a run: {"gantrain": ..., "values": {key: {"value":, "origin":}}}.
bool is_saved_config(const Json& tree) {
  return tree.contains("gantrain") && tree.contains("values") && tree["values"].is_object();
}

struct Layer {
  Config& config;
  const std::string& origin;
  std::set<std::string> seen;

  void set(const Json& tree, const std::string& prefix) {
    for (const auto& [name, value] : tree.items()) {
      const std::string path = prefix + name;
      if (value.is_object() && !config.has(path)) {
        set(value, path + ".");
        continue;
      }
      if (!seen.insert(path).second) fail(Exit::kUsage, "{}: {} is there twice", origin, path);
      config.set(path, value, origin);
    }
  }
};

// Refuses JSON that has a name twice in one object, of which Json would keep the last, and objects
// nested so deeply that walking them would overflow the stack.
class StrictObjects {
 public:
  StrictObjects(std::string name, Exit code) : name_(std::move(name)), code_(code) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    constexpr int kDeepest = 64;
    if (depth > kDeepest) fail(code_, "{}: more than {} levels deep", name_, kDeepest);
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      if (!open_.back().insert(key).second) fail(code_, "{}: {} is there twice", name_, key);
      // Json looks through all names of an object for each one that it adds.
      constexpr size_t kMostNames = 1 << 14;
      if (open_.back().size() > kMostNames)
        fail(code_, "{}: more than {} names in one object", name_, kMostNames);
    }
    return true;
  }

 private:
  std::string name_;
  Exit code_;
  std::vector<std::set<std::string>> open_;  // the objects that we are in: their names so far
};

std::string_view find_preset(const std::string& name) {
  const auto found = preset_files().find(name + ".json");
  if (found != preset_files().end()) return found->second;
  if (ends_with(name, ".json"))
    fail(
        Exit::kUsage, "--preset {}: presets have names; a file is read by --config {}", name, name);
  std::string hint = did_you_mean(name, preset_names());
  if (hint.empty()) hint = "; there are " + join(preset_names(), ", ");
  fail(Exit::kUsage, "unknown preset {}{}", name, hint);
}

Json preset_json(const std::string& name) {
  return parse_json(std::string(find_preset(name)), "preset " + name, Exit::kInternal);
}

}  // namespace

void Config::set_tree(const Json& tree, const std::string& origin) {
  if (!tree.is_object()) fail(Exit::kUsage, "{}: a JSON object is expected", origin);
  if (!is_saved_config(tree)) return Layer{*this, origin, {}}.set(tree, "");
  for (const auto& [path, entry] : tree["values"].items()) {
    if (!entry.is_object() || !entry.contains("value")) {
      fail(Exit::kUsage, "{}: values.{} has no \"value\"", origin, path);
    }
    set(path, entry["value"], origin);
  }
}

const Key& Config::key(const std::string& path) const { return schema_.at(values_.at(path).key); }
const Json& Config::get(const std::string& path) const { return values_.at(path).value; }
const std::string& Config::origin(const std::string& path) const { return values_.at(path).origin; }

bool Config::given(const std::string& path) const {
  const std::string& from = origin(path);
  return from != "default" && !starts_with(from, "preset ");
}

bool Config::said_by_user(const std::string& path) const {
  return given(path) && !starts_with(origin(path), "auto ");
}

Json Config::to_json() const {
  Json values = Json::object();
  for (const Key& key : schema_) {
    const Entry& entry = values_.at(key.path);
    values[key.path] = {{"value", entry.value}, {"origin", entry.origin}};
  }
  return {{"gantrain", kVersion}, {"values", std::move(values)}};
}

Json parse_json(const std::string& text, const std::string& name, Exit code) {
  const auto reason_of = [](const std::string& what) {
    const size_t at = what.find("] ");
    return at == std::string::npos ? what : what.substr(at + 2);
  };
  try {
    return Json::parse(text, StrictObjects(name, code), true, /*ignore_comments=*/true);
  } catch (const Json::parse_error& e) {
    const auto line =
        1 + std::count(text.begin(),
                       text.begin() + static_cast<long>(std::min(e.byte, text.size())),
                       '\n');
    fail(code, "{}: line {}: not JSON: {}", name, line, reason_of(e.what()));
  } catch (const Json::out_of_range& e) {  // numbers as 1e999, of which the reason names the text
    fail(code, "{}: not JSON: {}", name, reason_of(e.what()));
  }
}

namespace {

Json parse_config_of(const std::filesystem::path& file, Unreadable unreadable) {
  if (unreadable == Unreadable::kRefused)
    return parse_json(read_regular_file(file, kMostOfJson), file.string(), Exit::kInput);
  const auto text = content_of(file, kMostOfJson);
  return text ? parse_foreign(*text) : Json();
}

}  // namespace

SavedConfig read_saved_config(const std::filesystem::path& run, Unreadable unreadable) {
  const std::filesystem::path file = run / "config.json";
  std::error_code error;
  if (run.empty() || !std::filesystem::exists(file, error)) return {};
  const Json json = parse_config_of(file, unreadable);
  return {json.is_object() && json.contains("values") ? json["values"] : Json()};
}

Json SavedConfig::value(const std::string& key) const {
  if (!values.is_object() || !values.contains(key)) return {};
  const Json& entry = values[key];
  return entry.is_object() && entry.contains("value") ? entry["value"] : Json();
}

std::string SavedConfig::text(const std::string& key) const {
  const Json found = value(key);
  return found.is_null() ? "" : text_of(found);
}

std::optional<SavedValue> SavedConfig::find(const std::string& key) const {
  if (!values.is_object() || !values.contains(key)) return {};
  const Json& entry = values[key];
  const auto told = [&](const char* name) { return entry.is_object() && entry.contains(name); };
  if (!told("value") || !told("origin") || !entry["origin"].is_string()) return {};
  return SavedValue{entry["value"], entry["origin"]};
}

void set_from_environment(Config& config, const std::map<std::string, std::string>& environment) {
  for (const auto& [name, text] : environment) {
    if (!starts_with(name, "GANTRAIN_") || name.find("__") == std::string::npos) continue;
    std::string wanted = lower(name.substr(9));
    for (size_t at = wanted.find("__"); at != std::string::npos; at = wanted.find("__")) {
      wanted.replace(at, 2, ".");
    }
    std::string path = wanted;
    for (const Key& key : config.schema()) {
      if (lower(key.path) == wanted) path = key.path;
    }
    config.set(path, text, "environment " + name);
  }
}

std::vector<Difference> differences(const Config& a, const Config& b) {
  std::vector<Difference> all;
  for (const Key& key : b.schema()) {
    const std::string before = a.has(key.path) ? text_of(a.get(key.path)) : "(none)";
    const std::string after = text_of(b.get(key.path));
    if (before != after) all.push_back({key.path, before, after});
  }
  return all;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [file, text] : preset_files())
    names.emplace_back(file.substr(0, file.find(".")));
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
  std::ranges::reverse(layers);
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
