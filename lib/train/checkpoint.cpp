// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <torch/torch.h>

#include <algorithm>

#include "core/archive.h"
#include "distributed/group_backend.h"
#include "gan/synthesis_options.h"
#include "train/run_folder.h"
#include "train/training_step.h"
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

void check_config(const std::string& what,
                  const Json& saved,
                  const Config& config,
                  const std::string& force,
                  const std::string& misfit) {
  const std::vector<std::string> forced = split(force, ',');
  const auto is_forced = [&](const std::string& key) {
    return std::any_of(
        forced.begin(), forced.end(), [&](const std::string& f) { return f == key || f == "all"; });
  };
  std::vector<std::string> differing;
  std::vector<std::string> keys;
  for (const Key& key : config.schema()) {
    const Json before = saved.contains(key.path) ? saved[key.path] : key.value;
    const Json& now = config.get(key.path);
    if (before == now || may_differ(key.path) || is_forced(key.path)) continue;
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

// Throws UserError(kInput) if the file is broken, UserError(kUsage) if it is another run's.
void load_one(const fs::path& path,
              const NamedTensors& state,
              Counters& counters,
              const Config& config,
              const std::string& force) {
  const Archive archive = load_archive(path);
  const Json meta = parse_json(archive.meta, path.string(), Exit::kInput);
  if (meta.value("format", "") != "gantrain.state.1") {
    fail(Exit::kInput, "{}: not a gantrain state of this version", path.string());
  }
  const std::string misfit = find_misfit(archive, state);
  const auto stage = meta.value("stage_name", "");
  const std::string what = stage.empty() ? path.string() : path.string() + " (" + stage + ")";
  check_config(what, meta.at("config"), config, force, misfit);
  if (!misfit.empty()) fail(Exit::kUsage, "{}: {}", what, misfit);
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state) tensor.detach().copy_(archive.tensors.at(name));
  counters.images_seen = meta.at("images_seen").get<int64_t>();
  counters.iteration = meta.at("iteration").get<int64_t>();
  counters.tick = meta.at("tick").get<int64_t>();
  counters.seconds = meta.at("seconds").get<double>();
  counters.stage = meta.value("stage", int64_t{0});
  counters.stage_name = meta.value("stage_name", "");
  counters.micro_batch = meta.value("micro_batch", int64_t{0});
  const Json& saved = meta.at("config");
  counters.cpu_choice = saved.contains(kCpuChoice) ? text_of(saved[kCpuChoice]) : "";
}

}  // namespace

void save_state(const fs::path& path,
                const NamedTensors& state,
                const Counters& c,
                const Config& config) {
  Archive archive;
  const Json meta = {{"format", "gantrain.state.1"},
                     {"gantrain", kVersion},
                     {"images_seen", c.images_seen},
                     {"iteration", c.iteration},
                     {"tick", c.tick},
                     {"seconds", c.seconds},
                     {"stage", c.stage},
                     {"stage_name", c.stage_name},
                     {"micro_batch", c.micro_batch},
                     {"config", plain_values(config)}};
  archive.meta = meta.dump();
  int64_t bytes = 0;
  for (const auto& [name, tensor] : state) {
    archive.tensors[name] = tensor;
    bytes += static_cast<int64_t>(tensor.nbytes());
  }
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

void save_model(const fs::path& path, const TrainingStep& step, const Counters& c) {
  const Recipe& recipe = step.recipe();
  NamedTensors all = state_of(*step.average().network());
  for (const PlayerState& p : step.players())
    append(all, p.player->name + ".", state_of(*p.player->network));
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"gantrain.model", recipe.model().dump()},
      {"gantrain.version", kVersion},
      {"gantrain.kimg", number(static_cast<double>(c.images_seen) / 1e3)}};
  if (!recipe.schedule().empty()) {
    const SynthesisOptions now = options_at(recipe.schedule(), c.stage, c.images_seen);
    const bool grown = now.level == recipe.schedule().stages().back().resolution;
    if (!grown || now.alpha < 1) {  // what generate draws by default
      metadata["gantrain.level"] = std::to_string(now.level);
      metadata["gantrain.alpha"] = fmt::format("{}", now.alpha);
    }
  }
  save_safetensors(path, all, metadata);
}

fs::path load_newest(const fs::path& where,
                     const NamedTensors& state,
                     Counters& counters,
                     const Config& config,
                     const std::string& force) {
  if (fs::is_regular_file(where)) {
    load_one(where, state, counters, config, force);
    return where;
  }
  if (!fs::exists(where))
    fail(Exit::kInput,
         "{}: no such state or run folder; --resume takes a state-*.pt, a run folder, auto or none",
         where.string());
  const std::vector<NumberedFile> states = find_states(where);
  for (const NumberedFile& file : states) {
    try {
      load_one(file.path, state, counters, config, force);
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
                                      static_cast<double>(c.micro_batch)},
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
  group.broadcast_state(state);
  return true;
}

}  // namespace gantrain
