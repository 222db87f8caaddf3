// SPDX-License-Identifier: Apache-2.0
#include "train/save/checkpoint.h"

#include <algorithm>
#include <limits>

#include "core/torch.h"
#include "gan/synthesis_options.h"
#include "train/options.h"
#include "train/run/classes.h"
#include "train/save/run_folder.h"
#include "train/step/training_step.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

void append(NamedTensors& all, const std::string& prefix, const NamedTensors& more) {
  for (const auto& [name, tensor] : more) all.emplace_back(prefix + name, tensor);
}

constexpr const char* kCpuChoice = "precision.cpu_choice";

// Keys that control how a run is executed and not what it computes; they may differ when resuming.
bool may_differ(const std::string& key) {
  for (const char* prefix : {"launch.", "run.", "save.", "samples.", "metrics.", "dist."}) {
    if (starts_with(key, prefix)) return true;
  }
  for (const char* one : {"train.kimg",
                          "train.micro_batch",
                          "train.accumulate",
                          "train.tick",
                          "train.graphs",
                          "train.perturb_ranks",
                          "train.sync_debug",
                          "data.path",
                          "data.workers",
                          "data.cache_mb",
                          "data.verify",
                          "data.labels",
                          "data.on_bad",  // a change of the pictures themselves is noticed apart
                          "G.accumulate",
                          "D.accumulate"}) {
    if (key == one) return true;
  }
  return false;
}

Json plain_values(const Config& config) {
  Json values = Json::object();
  for (const Key& key : config.schema()) values[key.path] = config.get(key.path);
  return values;
}

// `saved` is the metadata of a state.
void check_classes(const std::string& what,
                   const Json& saved,
                   const ClassTable& classes,
                   const std::string& force) {
  if (!saved.contains("classes")) return;
  const ClassTable before = classes_from_json(saved["classes"], what);
  const std::string difference = class_difference(before, classes);
  if (difference.empty()) return;
  const bool fits = before.size() == classes.size();
  if (fits && is_forced(force, "data")) return warn("{}: other classes: {}", what, difference);
  fail(Exit::kUsage,
       "{}: the data has other classes: {}; give the data that it was trained on, or {}",
       what,
       difference,
       fits ? "--force data" : "--resume none to start afresh");
}

void check_config(const std::string& what,
                  const Json& saved,
                  const Config& config,
                  const std::string& force,
                  const std::string& misfit) {
  std::vector<std::string> differing;
  std::vector<std::string> keys;
  for (const Key& key : config.schema()) {
    const Json before = saved.contains(key.path) ? saved[key.path] : key.value;
    const Json& now = config.get(key.path);
    if (before == now || may_differ(key.path) || is_forced(force, key.path)) continue;
    if (key.path == kCpuChoice && now == "auto") continue;  // it is the state's then
    differing.push_back(fmt::format("{} {} -> {}", key.path, text_of(before), text_of(now)));
    keys.push_back(key.path);
  }
  if (differing.empty()) return;
  const std::string way_out =
      misfit.empty() ? "give the old values, or --force " + join(keys, ",")
                     : "give the old values (" + misfit + "), or --resume none to start afresh";
  fail(Exit::kUsage, "{}: the configuration differs: {}; {}", what, join(differing, ", "), way_out);
}

// Returns what is wrong with the first tensor that does not fit, or "".
std::string find_misfit(const Archive& archive, const NamedTensors& state) {
  for (const auto& [name, tensor] : state) {
    const auto at = archive.tensors.find(name);
    if (at == archive.tensors.end()) return fmt::format("tensor {} is missing", name);
    const at::Tensor& saved = at->second;
    if (saved.sizes() == tensor.sizes() && saved.scalar_type() == tensor.scalar_type()) continue;
    return fmt::format("tensor {} is {} [{}], {} [{}] is needed",
                       name,
                       c10::toString(saved.scalar_type()),
                       fmt::join(saved.sizes(), ", "),
                       c10::toString(tensor.scalar_type()),
                       fmt::join(tensor.sizes(), ", "));
  }
  return "";
}

// Reads the metadata of a state, which may be hostile: whatever is missing or of another type than
// gantrain writes throws UserError(kInput) that names the file and the key.
class StateReader {
 public:
  StateReader(const Json& meta, std::string file) : meta_(meta), file_(std::move(file)) {}

  int64_t count(const char* key, bool needed) const {
    const Json value = find(key, needed, int64_t{0});
    const bool small =
        !value.is_number_unsigned() || value.get<uint64_t>() <= std::numeric_limits<int64_t>::max();
    if (!value.is_number_integer() || !small || value.get<int64_t>() < 0)
      bad(key, "a count", value);
    return value.get<int64_t>();
  }
  double seconds(const char* key, bool needed) const {
    const Json value = find(key, needed, 0.0);
    if (!value.is_number() || !(value.get<double>() >= 0)) bad(key, "a time in seconds", value);
    return value.get<double>();
  }
  std::string text(const char* key) const {
    const Json value = find(key, false, "");
    if (!value.is_string()) bad(key, "a text", value);
    return value.get<std::string>();
  }

 private:
  Json find(const char* key, bool needed, const Json& otherwise) const {
    if (meta_.contains(key)) return meta_[key];
    if (needed) fail(Exit::kInput, "{}: not a whole state: {} is missing", file_, key);
    return otherwise;
  }
  [[noreturn]] void bad(const char* key, const char* wanted, const Json& value) const {
    fail(Exit::kInput,
         "{}: not a sound state: {} is {}, not {}",
         file_,
         key,
         value.is_number() ? value.dump() : value.type_name(),
         wanted);
  }

  const Json& meta_;
  std::string file_;
};

Counters counters_from(const Json& meta, const std::string& file) {
  if (!meta.is_object() || !meta.contains("format") || meta["format"] != "gantrain.state.1")
    fail(Exit::kInput, "{}: not a gantrain state of this version", file);
  if (!meta.contains("config") || !meta["config"].is_object())
    fail(Exit::kInput, "{}: not a whole state: config is missing", file);
  const StateReader reader(meta, file);
  Counters c;
  c.images_seen = reader.count("images_seen", true);
  c.iteration = reader.count("iteration", true);
  c.tick = reader.count("tick", true);
  c.seconds = reader.seconds("seconds", true);
  c.stage = reader.count("stage", false);
  c.stage_name = reader.text("stage_name");
  c.micro_batch = reader.count("micro_batch", false);
  c.metric_seconds = reader.seconds("metric_seconds", false);
  c.last_metric_seconds = reader.seconds("last_metric_seconds", false);
  const Json& config = meta["config"];
  c.cpu_choice = config.contains(kCpuChoice) ? text_of(config[kCpuChoice]) : "";
  return c;
}

// Throws UserError(kInput) if the file is broken, UserError(kUsage) if it is another run's.
void load_one(const fs::path& path,
              const NamedTensors& state,
              Counters& counters,
              const Config& config,
              const std::string& force,
              const ClassTable& classes) {
  const Archive archive = load_archive(path);
  const Json meta = parse_json(archive.meta, path.string(), Exit::kInput);
  const Counters saved = counters_from(meta, path.string());
  const std::string misfit = find_misfit(archive, state);
  const std::string& stage = saved.stage_name;
  const std::string what = stage.empty() ? path.string() : path.string() + " (" + stage + ")";
  check_classes(what, meta, classes, force);
  check_config(what, meta.at("config"), config, force, misfit);
  if (!misfit.empty()) fail(Exit::kUsage, "{}: {}", what, misfit);
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state) tensor.detach().copy_(archive.tensors.at(name));
  counters = saved;
}

}  // namespace

Archive state_archive(const NamedTensors& state,
                      const Counters& c,
                      const Config& config,
                      const ClassTable& classes) {
  Archive archive;
  Json meta = {{"format", "gantrain.state.1"},
               {"gantrain", kVersion},
               {"images_seen", c.images_seen},
               {"iteration", c.iteration},
               {"tick", c.tick},
               {"seconds", c.seconds},
               {"stage", c.stage},
               {"stage_name", c.stage_name},
               {"micro_batch", c.micro_batch},
               {"metric_seconds", c.metric_seconds},
               {"last_metric_seconds", c.last_metric_seconds},
               {"config", plain_values(config)}};
  if (!classes.empty()) meta["classes"] = to_json(classes);
  archive.meta = meta.dump();
  for (const auto& [name, tensor] : state) archive.tensors[name] = tensor;
  return archive;
}

void write_state(const fs::path& path, const Archive& archive) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : archive.tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  const int64_t room = free_bytes(path.parent_path());
  if (room >= 0 && room < bytes + bytes / 20) {
    fail(Exit::kDisk,
         "{}: needs {} MB, the disk has {} MB free",
         path.string(),
         bytes >> 20,
         room >> 20);
  }
  save_archive(path, archive);
}

void save_state(const fs::path& path,
                const NamedTensors& state,
                const Counters& counters,
                const Config& config,
                const ClassTable& classes) {
  write_state(path, state_archive(state, counters, config, classes));
}

ModelFile model_file(const TrainingStep& step,
                     const Counters& c,
                     bool raw,
                     const ClassTable& classes) {
  const Recipe& recipe = step.recipe();
  NamedTensors all = state_of(*step.average().network());
  if (raw) {
    for (const PlayerState& p : step.players())
      append(all, p.player->name + ".", state_of(*p.player->network));
  }
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"gantrain.model", recipe.model().dump()},
      {"gantrain.version", kVersion},
      {"gantrain.kimg", shortest(static_cast<double>(c.images_seen) / 1e3)}};
  if (!classes.empty()) metadata["gantrain.classes"] = to_json(classes).dump();
  if (!recipe.schedule().empty()) {
    const SynthesisOptions now = options_at(recipe.schedule(), c.stage, c.images_seen);
    const bool grown = now.level == recipe.schedule().stages().back().resolution;
    if (!grown || now.alpha < 1) {  // what generate draws by default
      metadata["gantrain.level"] = std::to_string(now.level);
      metadata["gantrain.alpha"] = fmt::format("{}", now.alpha);
    }
  }
  return {std::move(all), std::move(metadata)};
}

void write_model(const fs::path& path, const ModelFile& model) {
  save_safetensors(path, model.tensors, model.metadata);
}

void save_model(const fs::path& path,
                const TrainingStep& step,
                const Counters& counters,
                bool raw,
                const ClassTable& classes) {
  write_model(path, model_file(step, counters, raw, classes));
}

fs::path load_newest(const fs::path& where,
                     const NamedTensors& state,
                     Counters& counters,
                     const Config& config,
                     const std::string& force,
                     const ClassTable& classes) {
  std::error_code error;
  if (fs::is_regular_file(where, error)) {
    load_one(where, state, counters, config, force, classes);
    return where;
  }
  if (!fs::is_directory(where, error))
    fail(Exit::kInput,
         "{}: no such state or run folder; --resume takes a state-*.pt, a run folder, auto or none",
         where.string());
  const std::vector<NumberedFile> states = find_states(where);
  for (const NumberedFile& file : states) {
    if (!fs::is_regular_file(file.path, error)) {  // opening a pipe would wait for its writer
      warn("{}: not a regular file; trying the one before it", file.path.string());
      continue;
    }
    try {
      load_one(file.path, state, counters, config, force, classes);
      return file.path;
    } catch (const UserError& e) {
      if (e.code() != Exit::kInput) throw;
      warn("{}; trying the one before it", e.what());
    }
  }
  if (!states.empty()) {
    fail(Exit::kInput,
         "{}: none of its {} states can be read; --resume none starts afresh",
         where.string(),
         states.size());
  }
  return {};
}

bool share_state(Group& group, bool loaded, const NamedTensors& state, Counters& c) {
  at::Tensor numbers = torch::tensor({static_cast<double>(loaded),
                                      static_cast<double>(c.images_seen),
                                      static_cast<double>(c.iteration),
                                      static_cast<double>(c.tick),
                                      c.seconds,
                                      static_cast<double>(c.stage),
                                      static_cast<double>(c.micro_batch),
                                      c.metric_seconds,
                                      c.last_metric_seconds},
                                     at::kDouble)
                           .to(device_of(group));
  group.broadcast_(numbers);
  const at::Tensor host = numbers.cpu();
  if (host[0].item<double>() == 0) return false;
  c.images_seen = static_cast<int64_t>(host[1].item<double>());
  c.iteration = static_cast<int64_t>(host[2].item<double>());
  c.tick = static_cast<int64_t>(host[3].item<double>());
  c.seconds = host[4].item<double>();
  c.stage = static_cast<int64_t>(host[5].item<double>());
  c.micro_batch = static_cast<int64_t>(host[6].item<double>());
  c.metric_seconds = host[7].item<double>();
  c.last_metric_seconds = host[8].item<double>();
  group.broadcast_state(state);
  return true;
}

}  // namespace gantrain
