// SPDX-License-Identifier: Apache-2.0
#include "train/save/checkpoint.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "core/device.h"
#include "core/torch.h"
#include "gan/schedule.h"
#include "train/options.h"
#include "train/run/training_data.h"
#include "train/step/training_step.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

template <class Tensors>
int64_t bytes_of_all(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

constexpr const char* kCpuChoice = "precision.cpu_choice";

// Keys that control how a run is executed and not what it computes; they may differ when resuming.
bool may_differ(const std::string& key) {
  return is_among(key,
                  {"launch.",
                   "run.",
                   "save.",
                   "samples.",
                   "metrics.",
                   "dist.",
                   "train.kimg",
                   "train.micro_batch",
                   "train.accumulate",
                   "train.uneven",
                   "train.tick",
                   "train.graphs",
                   "train.perturb_ranks",
                   "train.sync_debug",
                   "data.path",
                   "data.workers",
                   "data.cache_mb",
                   "data.verify",
                   "data.labels",
                   "data.unlabelled",
                   "data.size_from",
                   "ema.snapshot_every",
                   "ema.snapshot_type",
                   "data.on_bad",  // a change of the pictures themselves is noticed apart
                   "G.accumulate",
                   "D.accumulate"}) ||
         ends_with(key, ".max_micro_batch");
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
       "{}: the data has other classes: {}; give the data that it was trained on, or {}; a new run "
       "on other data begins at its weights with --init-from",
       what,
       difference,
       fits ? "--force data" : "--resume none to start afresh");
}

void check_config(const std::string& what,
                  const Json& saved,
                  const Config& config,
                  const std::string& force,
                  const std::string& misfit) {
  const auto recipe_of = [](const Json& values) {
    return values.is_object() && values.contains("recipe") ? text_of(values["recipe"]) : "";
  };
  const std::string theirs = recipe_of(saved), own = recipe_of(plain_values(config));
  if (!theirs.empty() && theirs != own) {
    fail(Exit::kUsage,
         "{}: it was trained with recipe {}, and this run is of recipe {}; give a preset of {}, or "
         "--resume none to start afresh",
         what,
         theirs,
         own,
         theirs);
  }
  std::vector<std::string> differing;
  std::vector<std::string> keys;
  for (const Key& key : config.schema()) {
    const Json before = saved.contains(key.path) ? saved[key.path] : key.value;
    const Json& now = config.get(key.path);
    if (before == now || may_differ(key.path) || is_forced(force, key.path)) continue;
    if (key.path == "train.batch" && config.has("schedule.batch")) continue;  // that one decides
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

  void read(const char* key, int64_t& count, bool needed) const {
    const Json value = find(key, needed, int64_t{0});
    const bool small =
        !value.is_number_unsigned() || value.get<uint64_t>() <= std::numeric_limits<int64_t>::max();
    if (!value.is_number_integer() || !small || value.get<int64_t>() < 0)
      bad(key, "a count", value);
    count = value.get<int64_t>();
  }
  void read(const char* key, double& seconds, bool needed) const {
    const Json value = find(key, needed, 0.0);
    if (!value.is_number() || !(value.get<double>() >= 0)) bad(key, "a time in seconds", value);
    seconds = value.get<double>();
  }
  void read(const char* key, std::string& text, bool needed) const {
    const Json value = find(key, needed, "");
    if (!value.is_string()) bad(key, "a text", value);
    text = value.get<std::string>();
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

// The counters of a state file, by their keys there.
template <class AnyCounters, class Visit>
void each_counter(AnyCounters& c, Visit&& visit) {
  constexpr bool kNeeded = true;  // also of the states of earlier versions
  visit("images_seen", c.images_seen, kNeeded);
  visit("iteration", c.iteration, kNeeded);
  visit("tick", c.tick, kNeeded);
  visit("seconds", c.seconds, kNeeded);
  visit("stage", c.stage, !kNeeded);
  visit("stage_name", c.stage_name, !kNeeded);
  visit("micro_batch", c.micro_batch, !kNeeded);
  visit("metric_seconds", c.metric_seconds, !kNeeded);
  visit("last_metric_seconds", c.last_metric_seconds, !kNeeded);
}

Counters counters_from(const Json& meta, const std::string& file) {
  if (!meta.is_object() || !meta.contains("format") || meta["format"] != "gantrain.state.1")
    fail(Exit::kInput, "{}: not a gantrain state of this version", file);
  if (!meta.contains("config") || !meta["config"].is_object())
    fail(Exit::kInput, "{}: not a whole state: config is missing", file);
  const StateReader reader(meta, file);
  Counters c;
  each_counter(
      c, [&reader](const char* key, auto& value, bool needed) { reader.read(key, value, needed); });
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
  if (!misfit.empty()) {
    fail(
        Exit::kUsage,
        "{}: {}; give the data and the flags that it was trained with; in a new run --init-from {} "
        "begins at the weights that fit",
        what,
        misfit,
        shell_quote(path.string()));
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state) tensor.detach().copy_(archive.tensors.at(name));
  counters = saved;
}

// The training's own threads go first, and signals are theirs.
void stand_back() {
  constexpr int kNice = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
  block_signals();
}

}  // namespace

Archive state_archive(const NamedTensors& state,
                      const Counters& c,
                      const Config& config,
                      const ClassTable& classes) {
  Archive archive;
  Json meta = {{"format", "gantrain.state.1"}, {"gantrain", kVersion}};
  each_counter(c, [&meta](const char* key, const auto& value, bool) { meta[key] = value; });
  meta["config"] = plain_values(config);
  if (!classes.empty()) meta["classes"] = to_json(classes);
  archive.meta = meta.dump();
  for (const auto& [name, tensor] : state) archive.tensors[name] = tensor;
  return archive;
}

void write_state(const fs::path& path, const Archive& archive) {
  const int64_t tensors = bytes_of_all(archive.tensors);
  const int64_t bytes = tensors + tensors / 20;  // with what the archive adds
  const int64_t room = free_bytes(path.parent_path());
  if (room >= 0 && room < bytes) fail(Exit::kDisk, "{}: {}", path.string(), lack_text(bytes, room));
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
    for (const PlayerState& p : step.players()) {
      for (const auto& [name, tensor] : state_of(*p.player->network))
        all.emplace_back(p.player->name + "." + name, tensor);
    }
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"},
                                                 {"gantrain.model", recipe.model().dump()},
                                                 {"gantrain.version", kVersion},
                                                 {"gantrain.kimg", kimg_text(c.images_seen)}};
  if (step.depth() != 8) metadata["gantrain.depth"] = std::to_string(step.depth());
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

fs::path load_newest(const fs::path& where,
                     const NamedTensors& state,
                     Counters& counters,
                     const Config& config,
                     const std::string& force,
                     const ClassTable& classes) {
  check_resumable(where);
  std::error_code error;
  if (fs::is_regular_file(where, error)) {
    load_one(where, state, counters, config, force, classes);
    return where;
  }
  const std::vector<NumberedFile> states = find_states(where, Listing::kStrict);
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
  std::vector<double> numbers = {static_cast<double>(loaded)};
  each_counter(c, [&numbers](const char*, const auto& value, bool) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>)
      numbers.push_back(static_cast<double>(value));
  });
  at::Tensor sent = torch::tensor(numbers, at::kDouble).to(device_of(group));
  group.broadcast_(sent);
  const at::Tensor host = sent.cpu();
  if (host[0].item<double>() == 0) return false;
  int64_t next = 1;
  each_counter(c, [&](const char*, auto& value, bool) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<Value>)
      value = static_cast<Value>(host[next++].template item<double>());
  });
  group.broadcast_state(state);
  return true;
}

void HostCopies::begin() {
  used_ = 0;
  copied_.clear();
  devices_.clear();
}

at::Tensor HostCopies::copy(const at::Tensor& tensor) {
  const Elements elements{tensor.const_data_ptr(),
                          tensor.sizes().vec(),
                          tensor.strides().vec(),
                          static_cast<int>(tensor.scalar_type())};
  if (const auto at = copied_.find(elements); at != copied_.end() && tensor.numel() > 0)
    return at->second;
  if (used_ == memory_.size()) memory_.emplace_back();
  at::Tensor& memory = memory_[used_++];
  const bool on_device = !tensor.device().is_cpu();
  const bool fits = memory.defined() && memory.sizes() == tensor.sizes() &&
                    memory.scalar_type() == tensor.scalar_type() && memory.is_pinned() == on_device;
  if (!fits) {
    memory =
        at::empty(tensor.sizes(),
                  at::TensorOptions(at::kCPU).dtype(tensor.scalar_type()).pinned_memory(on_device));
  }
  const torch::NoGradGuard no_grad;
  memory.copy_(tensor.detach(), /*non_blocking=*/on_device);
  if (on_device && !contains(devices_, tensor.device())) devices_.push_back(tensor.device());
  copied_[elements] = memory;
  return memory;
}

void HostCopies::finish() {
  for (const at::Device device : devices_) wait_for(device);
}

CheckpointWriter::~CheckpointWriter() {
  try {
    wait();
  } catch (const std::exception& e) {
    try_to_warn(e.what());
  }
}

void CheckpointWriter::copy(Save& save) {
  copies_.begin();
  for (auto& [name, tensor] : save.state.tensors) tensor = copies_.copy(tensor);
  for (auto& [name, tensor] : save.model.tensors) tensor = copies_.copy(tensor);
  copies_.finish();
}

void CheckpointWriter::reserve(const Save& save) {
  wait();
  Save copied = save;
  copy(copied);
}

void CheckpointWriter::save(Save save, std::function<void()> afterwards) {
  wait();
  copy(save);
  writes_(true);
  std::shared_ptr<void> ended(nullptr, [writes = writes_](void*) { writes(false); });
  pending_ = std::async(std::launch::async,
                        [save = std::move(save),
                         afterwards = std::move(afterwards),
                         ended = std::move(ended)]() mutable {
                          const std::shared_ptr<void> before_the_future = std::move(ended);
                          stand_back();
                          if (!save.state_path.empty()) write_state(save.state_path, save.state);
                          if (!save.model_path.empty()) write_model(save.model_path, save.model);
                          if (afterwards) afterwards();
                        });
}

void CheckpointWriter::check() {
  const std::chrono::seconds now(0);
  if (pending_.valid() && pending_.wait_for(now) == std::future_status::ready) wait();
}

void CheckpointWriter::wait() {
  if (pending_.valid()) pending_.get();
}

SaveBytes bytes_of(const CheckpointWriter::Save& save) {
  return {.state = bytes_of_all(save.state.tensors), .model = bytes_of_all(save.model.tensors)};
}

void complete_save(const CheckpointWriter::Save& save) {
  if (fs::exists(save.state_path) && !fs::exists(save.model_path))
    write_model(save.model_path, save.model);
}

}  // namespace gantrain
