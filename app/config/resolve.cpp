// SPDX-License-Identifier: Apache-2.0
#include "config/resolve.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>

#include "command/flags.h"
#include "config/value.h"
#include "launch/where/network.h"
#include "train/options.h"
#include "train/save/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

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
  std::string run_dir;              // of the run whose config.json one of them is; "" if none is
};

// The first line that is neither empty nor a comment of YAML or Python.
std::string first_statement(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    const std::string words = trim(line);
    if (!words.empty() && words[0] != '#' && words != "---") return words;
  }
  return "";
}

// "train: ", "_base_ = [...", "from x import y": how YAML and Python begin, and JSON never.
bool begins_with_name(const std::string& statement, char behind) {
  const size_t end = statement.find_first_not_of(
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
  if (end == 0 || end == std::string::npos) return false;
  const std::string rest = trim(statement.substr(end));
  return !rest.empty() && rest[0] == behind;
}

// Throws UserError(kUsage) with the way to JSON where the file is something else that a newcomer
// may have at hand.
void refuse_other_languages(const std::string& text, const std::string& path) {
  const std::string kind = file_kind(text), first = first_statement(text);
  if (!kind.empty()) fail(Exit::kUsage, "--config {}: {}, no configuration", path, kind);
  if (ends_with(path, ".py") || starts_with(first, "import ") || starts_with(first, "from ") ||
      begins_with_name(first, '=')) {
    fail(Exit::kUsage,
         "--config {}: Python, and JSON is needed: {} presets show stylegan2 > own.json writes one "
         "to start from, {} help keys lists all keys",
         path,
         program(),
         program());
  }
  if (ends_with(path, ".yaml") || ends_with(path, ".yml") || begins_with_name(first, ':')) {
    const std::string json = fs::path(path).replace_extension(".json").string();
    fail(Exit::kUsage,
         "--config {}: YAML, and JSON is needed: python3 -c 'import json, sys, yaml; "
         "json.dump(yaml.safe_load(sys.stdin), sys.stdout)' < {} > {} converts it",
         path,
         shell_quote(path),
         shell_quote(json));
  }
}

// What is written to a FIFO, until all who write have closed it. One to which nobody writes within
// a second is refused; opening it would wait for ever.
std::string read_fifo(const std::string& path) {
  constexpr double kSeconds = 1;
  const UniqueFd fifo(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fifo) fail(Exit::kInput, "{}: {}", path, errno_text());
  const double give_up = monotonic_seconds() + kSeconds;
  std::string text;
  bool written = false;
  while (true) {
    std::array<char, 65536> buffer{};
    const ssize_t size = ::read(fifo.get(), buffer.data(), buffer.size());
    if (size > 0) text.append(buffer.data(), static_cast<size_t>(size));
    const bool waits = size < 0 && (errno == EAGAIN || errno == EINTR);  // somebody has it open
    if (size < 0 && !waits) fail(Exit::kInput, "{}: {}", path, errno_text());
    written = written || size > 0 || waits;
    if (size == 0 && written) return text;
    if (size == 0 && monotonic_seconds() > give_up)
      fail(Exit::kInput, "{}: a FIFO to which nobody writes", path);
    if (size <= 0) ::usleep(10'000);
  }
}

Json read_json(const std::string& path, const std::string& named_by) {
  std::string text;
  try {
    std::error_code error;
    text = std::filesystem::is_fifo(path, error) ? read_fifo(path)
                                                 : read_file(path == "-" ? "/dev/stdin" : path);
  } catch (const UserError& e) {
    fail(Exit::kUsage, "{} {}", named_by, e.what());
  }
  Json tree;
  try {
    tree = parse_json(text, path, Exit::kUsage);
  } catch (const UserError&) {
    refuse_other_languages(text, path);
    throw;
  }
  if (!tree.is_object()) fail(Exit::kUsage, "{}: a JSON object is expected", path);
  return tree;
}

// Takes "base" and "about" out, which are no keys of a run. Returns the base.
std::string take_base(Json& tree, const std::string& path) {
  std::string base;
  for (const char* name : {"base", "about"}) {
    if (!tree.contains(name)) continue;
    if (!tree[name].is_string())
      fail(Exit::kUsage, "{}: {} = {}: a text is expected", path, name, tree[name].dump());
    if (std::string(name) == "base") {
      base = tree[name];
      if (base.empty())
        fail(Exit::kUsage, "{}: base is empty: a preset or a file is expected", path);
    }
    tree.erase(name);
  }
  return base;
}

bool is_preset(const std::string& name) {
  const std::vector<std::string> names = preset_names();
  return contains(names, name);
}

// A base that is no preset is a file beside the one that names it.
std::string file_of_base(const std::string& base, const std::string& path) {
  const fs::path file = fs::path(path).parent_path() / base;
  std::error_code error;
  if (fs::exists(file, error)) return file.string();
  std::string hint = did_you_mean(base, preset_names());
  if (hint.empty()) hint = fmt::format("; {} presets list shows the presets", program());
  fail(Exit::kUsage,
       "{}: base = {}: there is no preset and no file of that name ({}){}",
       path,
       base,
       file.string(),
       hint);
}

void refuse_circle(const std::vector<std::string>& chain, const std::string& next) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(next, error);
  for (const std::string& seen : chain) {
    if (fs::weakly_canonical(seen, error) != real) continue;
    fail(Exit::kUsage, "{}: bases run in a circle: {} -> {}", seen, join(chain, " -> "), next);
  }
}

// A value of a file's tree: "preset" itself, or as config.json of a run holds it.
std::string text_in(const Json& tree, const char* key) {
  if (tree.contains(key) && tree[key].is_string()) return tree[key];
  if (!tree.contains("values") || !tree["values"].is_object() || !tree["values"].contains(key))
    return "";
  const Json& entry = tree["values"][key];
  const bool said = entry.is_object() && entry.contains("value") && entry["value"].is_string();
  return said ? entry["value"].get<std::string>() : "";
}

// What config.json of a run says of its own session, and not of how it trained.
constexpr std::array<const char*, 3> kOfSession = {"run.run_dir", "run.resume", "run.force"};

// Takes these out of a run's config.json: a file that was named for its settings does not lead into
// its run. Returns the run folder that it had, or "".
std::string take_session(Json& tree) {
  if (!tree.contains("gantrain") || !tree.contains("values") || !tree["values"].is_object())
    return "";
  const std::string folder = text_in(tree, kOfSession[0]);
  for (const char* key : kOfSession) tree["values"].erase(key);
  return folder;
}

// Reads the file and its bases; "" gives no layers. Throws UserError(kUsage) that names the file
// for one that cannot be read or is not JSON, an unknown base, and bases that run in a circle.
ConfigFile read_config_file(const std::string& path) {
  ConfigFile file;
  std::vector<std::string> chain;
  std::string named_by = "--config";
  for (std::string at = path; !at.empty();) {
    Json tree = read_json(at, named_by);
    chain.push_back(at);
    const bool preset = tree.contains("about");
    const std::string base = take_base(tree, at);
    if (const std::string folder = take_session(tree); !folder.empty()) file.run_dir = folder;
    file.layers.push_back({(preset ? "preset " : "file ") + at, preset, std::move(tree)});
    if (base.empty()) break;
    if (is_preset(base)) {
      file.preset = base;
      file.preset_origin = "base of file " + at;
      break;
    }
    const std::string next = file_of_base(base, at);
    refuse_circle(chain, next);
    named_by = at + ": base";
    at = next;
  }
  std::reverse(file.layers.begin(), file.layers.end());
  return file;
}

// What --smoke stands for; flags may still change it.
const Json& smoke_values() {
  static const Json values = {{"data.resolution", 16},
                              {"launch.nproc", 2},
                              {"launch.device", "cpu"},
                              {"launch.threads", 1},
                              {"train.kimg", 2},
                              {"train.tick", 0.5},
                              {"save.every", 1},
                              {"samples.every", 1},
                              {"metrics.every", 1},
                              {"metrics.images", 256},
                              {"train.deterministic", true},
                              {"run.resume", "none"}};
  return values;
}

// "preset" and "recipe" may also be named in a configuration file, "recipe" by --set.
struct Header {
  std::string preset;
  std::string preset_origin = "default";
  std::string recipe;
};

// The first layer from the top that names it.
std::string text_in(const ConfigFile& file, const char* key) {
  for (auto layer = file.layers.rbegin(); layer != file.layers.rend(); ++layer) {
    const std::string text = text_in(layer->values, key);
    if (!text.empty()) return text;
  }
  return "";
}

// The first that names one: --preset, --set, the environment, the file, the preset that it extends.
void find_preset(const ConfigSources& request,
                 const ConfigFile& file,
                 const std::map<std::string, std::string>& environment,
                 Header& header) {
  const auto take = [&](const std::string& preset, const std::string& origin) {
    if (!header.preset.empty() || preset.empty()) return;
    header.preset = preset;
    header.preset_origin = origin;
  };
  take(request.preset, "flag --preset");
  for (auto at = request.flags.rbegin(); at != request.flags.rend(); ++at) {
    if (at->first == "--set" && starts_with(at->second, "preset="))
      take(at->second.substr(7), "flag --set");
  }
  const auto variable = environment.find("GANTRAIN_PRESET");
  if (variable != environment.end()) take(variable->second, "environment GANTRAIN_PRESET");
  take(text_in(file, "preset"), "file " + request.config_file);
  take(file.preset, file.preset_origin);
  if (!file.preset.empty() && header.preset != file.preset) {
    fail(Exit::kUsage,
         "preset = {} ({}), but {} is preset {}; leave one out",
         header.preset,
         header.preset_origin,
         file.preset_origin,
         file.preset);
  }
}

Header find_header(const ConfigSources& request,
                   const ConfigFile& file,
                   const std::map<std::string, std::string>& environment) {
  Header header;
  find_preset(request, file, environment, header);
  header.recipe = text_in(file, "recipe");
  for (const auto& [flag, pair] : request.flags) {
    if (flag == "--set" && starts_with(pair, "recipe=")) header.recipe = pair.substr(7);
  }
  if (header.preset.empty() && header.recipe.empty()) {
    header.preset = request.smoke ? "dcgan-tiny" : kDefaultPreset;
    if (request.smoke) header.preset_origin = "flag --smoke";
  }
  if (!header.preset.empty()) {
    const std::string of_preset = preset_recipe(header.preset);
    if (header.recipe.empty()) header.recipe = of_preset;
    if (header.recipe != of_preset) {
      fail(Exit::kUsage,
           "recipe = {}, but preset {} is made for {}",
           header.recipe,
           header.preset,
           of_preset);
    }
  }
  return header;
}

// --lr-scale: learning rates follow the batch. Recipes whose batch follows from other values, as
// that of each stage of networks that grow, do this themselves.
void follow_batch(Config& config, double preset_batch) {
  const std::string recipe = text_of(config.get("recipe")), automatic = recipe + ".automatic";
  if (find_recipe_facts(recipe).schedule != nullptr) return;
  if (config.has(automatic) && config.get(automatic) == true) return;
  const int64_t batch = config.read<TrainOptions>().batch;
  const std::string rule = text_of(config.get("train.lr_scale"));
  if (batch == preset_batch) return;
  if (rule == "none")
    return info("batch {} instead of the preset's {:g}: {}", batch, preset_batch, kRatesStay);
  if (!scale_rates(config, static_cast<double>(batch) / preset_batch))
    warn("--lr-scale {} scales nothing: all learning rates are given", rule);
}

// Values that change nothing but the speed follow today's ranks and device.
bool is_about_speed(const std::string& key) {
  return key == "train.micro_batch" || key == "data.workers" || key == "launch.nproc" ||
         key == "launch.threads";
}

// Whether a run that began on a CPU left this value at its default, where a GPU would choose
// another.
bool was_left_on_a_cpu(const std::string& key, const std::string& origin, const Site& site) {
  if (!site.on_gpu || (key != "precision.amp" && key != "precision.mode")) return false;
  return origin == "default" || starts_with(origin, "preset ");
}

// Takes over the values that hold for the whole run, except those that are given now.
bool keep_chosen(Config& config, const Site& site, const SavedConfig& saved) {
  bool kept = false;
  for (const Key& key : config.schema()) {
    const auto before = saved.find(key.path);
    if (!before) continue;
    const auto& [value, origin] = *before;
    const bool given = config.given(key.path);
    const bool follows = starts_with(origin, "auto") || starts_with(origin, "--lr-scale");
    const bool chosen = follows && !is_about_speed(key.path);
    if (chosen && (!given || config.get(key.path) == "auto")) {
      config.set(key.path, value, origin);
      kept = true;
    } else if (!given && was_left_on_a_cpu(key.path, origin, site)) {
      config.set(key.path, value, "auto (as the run began)");
      kept = true;
    }
  }
  return kept;
}

}  // namespace

std::string key_of_flag(const std::string& name) {
  for (const Flag& flag : flag_table()) {
    for (const std::string& one : split(flag.names, ',')) {
      if (one == name) return flag.key;
    }
  }
  return "";
}

bool is_range(const std::string& flag, const std::string& value) {
  return (flag == "--nproc" || flag == "--nnodes") && std::ranges::count(value, ':') == 1;
}

namespace {

// --nproc 2:4 is --nproc 4 with at least 2 of them; likewise --nnodes.
void set_from_flag(Config& config, const std::string& flag, const std::string& value) {
  const std::string key = key_of_flag(flag), origin = "flag " + flag;
  if (!is_range(flag, value)) return config.set(key, value, origin);
  const std::vector<std::string> sides = split(value, ':');
  if (!parse_int(sides[0]) || !parse_int(sides[1]))
    fail(Exit::kUsage, "{} {}: MIN:MAX are two numbers", flag, value);
  config.set(key, sides[1], origin);
  config.set(key + "_min", sides[0], origin);
}

}  // namespace

void set_from_flags(Config& config, const std::vector<std::pair<std::string, std::string>>& flags) {
  for (const auto& [flag, value] : flags) {
    if (flag != "--set") {
      set_from_flag(config, flag, value);
      continue;
    }
    const size_t equals = value.find('=');
    if (equals == std::string::npos) fail(Exit::kUsage, "--set {}: key=value is expected", value);
    const std::string said = value.substr(0, equals);
    const std::string key = full_key(config, said, flags);
    if (key != said) info("taken   --set {} for --set {}", said, key);
    check_key(config, key, "flag --set");
    config.set(key, value.substr(equals + 1), "flag --set");
  }
}

Config resolve(const ConfigSources& request,
               const std::map<std::string, std::string>& environment) {
  const ConfigFile file = read_config_file(request.config_file);
  const Header header = find_header(request, file, environment);
  Config config(full_schema(header.recipe));
  if (!header.preset.empty()) {
    for (const PresetLayer& layer : preset_layers(header.preset))
      config.set_tree(layer.values, "preset " + layer.name);
  }
  config.set("recipe", header.recipe, "preset " + header.preset);
  double preset_batch = config.get("train.batch").get<double>();
  for (const ConfigLayer& layer : file.layers) {
    check_keys(config, layer.values, layer.origin);
    config.set_tree(layer.values, layer.origin);
    if (layer.is_preset) preset_batch = config.get("train.batch").get<double>();
  }
  config.set("preset", header.preset, header.preset_origin);  // for messages; again below
  check_keys(config, environment);
  if (request.tells) warn_of_single_underscores(config, environment);
  set_from_environment(config, environment);
  if (request.smoke) config.set_tree(smoke_values(), "flag --smoke");
  set_from_flags(config, request.flags);
  if (request.tells) warn_of_other_optimizers(config);
  config.set("preset", header.preset, header.preset_origin);
  if (!file.run_dir.empty() && request.tells && text_of(config.get("run.run_dir")).empty()) {
    info("config  {0} is of the run in {1}; this is a new run: --run-dir {1} goes on with that one",
         request.config_file,
         shell_quote(file.run_dir));
  }
  follow_batch(config, preset_batch);
  return config;
}

Config config_from_json(const Json& json) {
  const Json& values = json.at("values");
  Config config(full_schema(values.at("recipe").at("value").get<std::string>()));
  for (const auto& [key, entry] : values.items())
    config.set(key, entry.at("value"), entry.at("origin"));
  return config;
}

std::optional<SavedValue> saved_value(const fs::path& run, const std::string& key) {
  return read_saved_config(run, Unreadable::kRefused).find(key);
}

std::vector<std::string> choose_auto_values(Config& config, const Site& site) {
  const RecipeFacts& recipe = find_recipe_facts(text_of(config.get("recipe")));
  if (recipe.complete == nullptr) return {};
  const fs::path run = resumed_run(config.read<RunOptions>());
  const SavedConfig saved = read_saved_config(run, Unreadable::kRefused);
  const bool kept = keep_chosen(config, site, saved);
  Site here = site;
  here.goes_on = saved.values.is_object();
  std::vector<std::string> lines = recipe.complete(config, here);
  if (kept) lines.push_back(fmt::format("auto    other values as {} began with", run.string()));
  return lines;
}

std::optional<DataOptions> data_of_run(const std::filesystem::path& model_file,
                                       const std::string& path) {
  const fs::path beside = model_file.parent_path(), run = beside.empty() ? "." : beside;
  std::error_code error;
  if (fs::exists(run / "config.json", error))
    read_regular_file(run / "config.json", kMostOfJson);  // refuses a pipe, which is waited for
  const SavedConfig saved =
      read_saved_config(run, path.empty() ? Unreadable::kRefused : Unreadable::kIgnored);
  DataOptions options;
  if (saved.values.is_object()) {  // keys of another version that are not about data do not matter
    Schema schema;
    add_keys<DataOptions>(schema);
    Config config(schema);
    for (const Key& key : schema) {
      if (const auto found = saved.find(key.path))
        config.set(key.path, found->value, found->origin);
    }
    options = config.read<DataOptions>();
  } else if (path.empty()) {
    return std::nullopt;
  }
  if (!path.empty() && path != options.path) {
    options.path = path;
    options.labels = "auto";  // the run's file of labels is about the run's pictures
  }
  return options;
}

}  // namespace gantrain
