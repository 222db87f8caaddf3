// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>

#include "auto_values.h"
#include "bench_requests.h"
#include "bench_verbs.h"
#include "cli.h"
#include "config/message.h"
#include "device_choice.h"
#include "flags.h"
#include "launch/devices.h"
#include "launch/environment.h"
#include "resolve.h"
#include "schema.h"
#include "train/options.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;  // ConfigSources::flags

struct Row {
  const char* name;
  const char* about;
  const char* preset;
  std::vector<std::string> set;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"stylegan2",
       "StyleGAN2, 64 pixels, batch 8",
       "stylegan2",
       {"data.resolution=64",
        "train.batch=8",
        "train.micro_batch=8",
        "stylegan2.channel_base=16384",
        "stylegan2.map_depth=2"}},
      {"stylegan3",
       "StyleGAN3-T, 64 pixels, batch 4, without augmentation",
       "stylegan3-t",
       {"data.resolution=64",
        "train.batch=4",
        "train.micro_batch=4",
        "stylegan3.channel_base=8192",
        "ada.mode=none"}},
      {"r3gan",
       "R3GAN, FFHQ-64 at an eighth of the widths, batch 16, without augmentation",
       "r3gan-ffhq64",
       {"train.batch=16", "train.micro_batch=16", "r3gan.width=64:48,96", "ada.mode=none"}},
      {"dcgan",
       "DCGAN, 64 pixels, batch 128",
       "dcgan",
       {"data.resolution=64", "train.batch=128", "dcgan.channels=512", "dcgan.d_channels=64"}},
      {"pggan",
       "PGGAN, 32 pixels, batch 16",
       "pggan",
       {"data.resolution=32", "pggan.fmap_base=2048", "pggan.fmap_max=256", "schedule.batch=16"}},
      {"stylegan1",
       "StyleGAN v1, 32 pixels, batch 16",
       "stylegan1",
       {"data.resolution=32",
        "stylegan1.fmap_base=2048",
        "stylegan1.fmap_max=256",
        "schedule.batch=16"}}};
  return table;
}

// The flags of `train` that say what one iteration computes.
bool is_about_the_step(const Flag& flag) {
  const std::string group = flag.group, key = flag.key;
  return group == "How" || (group == "What" && key != "data.path" && key != "data.cond");
}

// What all networks of a measurement share.
struct Where {
  std::string official;  // folder of the network's official code, or ""
  bool cuda = false;
};

// How many of the highest resolutions compute in 16 bits.
std::string half_resolutions(const Config& config) {
  const bool blocks =
      config.get("precision.amp") != "off" && config.get("precision.mode") == "blocks";
  const std::string key = text_of(config.get("recipe")) + ".num_fp16_res";
  return blocks ? text_of(config.get(key)) : "0";
}

// The scripts that run official code: the flags of each, and the recipe's keys whose values they
// take.
struct OfficialPeer {
  std::string recipe, script;
  std::vector<std::pair<std::string, std::string>> arguments;
};

const std::vector<OfficialPeer>& official_peers() {
  static const std::vector<OfficialPeer> table = {{"stylegan2",
                                                   "stylegan2.py",
                                                   {{"--channel-base", "channel_base"},
                                                    {"--channel-max", "channel_max"},
                                                    {"--map-depth", "map_depth"},
                                                    {"--z-dim", "z_dim"},
                                                    {"--w-dim", "w_dim"},
                                                    {"--mbstd-group", "mbstd_group"}}},
                                                  {"stylegan3",
                                                   "stylegan3.py",
                                                   {{"--config", "config"},
                                                    {"--channel-base", "channel_base"},
                                                    {"--channel-max", "channel_max"},
                                                    {"--d-channel-base", "d_channel_base"},
                                                    {"--d-channel-max", "d_channel_max"},
                                                    {"--map-depth", "map_depth"},
                                                    {"--z-dim", "z_dim"},
                                                    {"--w-dim", "w_dim"},
                                                    {"--mbstd-group", "mbstd_group"}}},
                                                  {"r3gan",
                                                   "r3gan.py",
                                                   {{"--width", "width"},
                                                    {"--cardinality", "cardinality"},
                                                    {"--blocks", "blocks"},
                                                    {"--z-dim", "z_dim"},
                                                    {"--gamma", "gamma"}}}};
  return table;
}

// Arguments of the scripts that do the same under PyTorch.
std::vector<BenchPeer> peers_of(const Config& config, const Where& where) {
  const std::string recipe = text_of(config.get("recipe"));
  const auto arguments = [&](const std::vector<std::pair<const char*, const char*>>& keys) {
    std::vector<std::string> all;
    for (const auto& [flag, key] : keys) {
      all.emplace_back(flag);
      all.push_back(text_of(config.get(key)));
    }
    return all;
  };
  std::vector<BenchPeer> peers;
  if (recipe == "dcgan" && config.get("data.resolution") == 64) {
    for (const char* layout : {"contiguous", "channels-last"}) {
      auto all = arguments({{"--batch", "train.batch"},
                            {"--latent", "dcgan.latent"},
                            {"--channels", "dcgan.channels"},
                            {"--d-channels", "dcgan.d_channels"}});
      all.insert(all.end(), {"--layout", layout});
      peers.push_back({std::string("PyTorch, ") + layout, "dcgan.py", all});
    }
  }
  // The official code makes squares alone.
  const bool square = config.get("data.resolution").is_number();
  const auto peer = std::find_if(official_peers().begin(),
                                 official_peers().end(),
                                 [&](const auto& p) { return recipe == p.recipe; });
  if (peer != official_peers().end() && square && !where.official.empty()) {
    auto all = arguments({{"--resolution", "data.resolution"}, {"--batch", "train.batch"}});
    for (const auto& [flag, key] : peer->arguments) {
      const Json& value = config.get(recipe + "." + key);
      all.insert(all.end(), {flag, value.is_object() ? text_of(value.at("from")) : text_of(value)});
    }
    all.insert(all.end(), {"--official", where.official});
    if (where.cuda) all.insert(all.end(), {"--fp16-res", half_resolutions(config)});
    peers.push_back({"official code", peer->script, all});
  }
  for (BenchPeer& peer : peers) {
    if (where.cuda) peer.arguments.insert(peer.arguments.end(), {"--device", "cuda"});
  }
  return peers;
}

BenchStepNet net_of(const Row& row, const Pairs& flags, const Where& where) {
  ConfigSources sources;
  sources.preset = row.preset;
  for (const std::string& pair : row.set) sources.flags.emplace_back("--set", pair);
  sources.flags.insert(sources.flags.end(), flags.begin(), flags.end());
  Config config = resolve(sources, {});
  choose_auto_values(config, Site{.ranks = 1, .on_gpu = where.cuda});
  check_graphs(config.read<TrainOptions>("train."), where.cuda);
  std::string about = row.about;
  for (const auto& [flag, value] : flags) about += fmt::format(" {} {}", flag, value);
  return {row.name, about, config.to_json(), peers_of(config, where)};
}

std::vector<Row> chosen_rows(const std::string& names, const std::string& preset) {
  if (!preset.empty()) return {{preset.c_str(), preset.c_str(), preset.c_str(), {}}};
  std::vector<Row> chosen;
  for (const std::string& word : split(names, ',')) {
    const auto at =
        std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.name == word; });
    if (at == rows().end()) {
      std::vector<std::string> known;
      for (const Row& row : rows()) known.emplace_back(row.name);
      fail(Exit::kUsage, "--nets {}: there are {}", names, join(known, ", "));
    }
    chosen.push_back(*at);
  }
  return chosen;
}

// The official repositories have two names for the file of the networks.
void check_official(const std::string& folder) {
  namespace fs = std::filesystem;
  if (folder.empty()) return;
  for (const char* file : {"training/networks.py", "training/networks_stylegan2.py"}) {
    if (fs::exists(fs::path(folder) / file)) return;
  }
  fail(Exit::kUsage,
       "--official {}: there is no training/networks.py, and no training/networks_stylegan2.py",
       folder);
}

// The options of the training step, as flags of the command line.
class StepFlags {
 public:
  explicit StepFlags(CLI::App& app) : app_(app) {
    set_ = app.add_option("--set", pairs_, "key=value, any key of gantrain help keys");
    const Config defaults(full_schema(recipe_facts().front().name));
    for (const Flag& flag : flag_table()) {
      if (!is_about_the_step(flag)) continue;
      const std::string& help = defaults.key(flag.key).help;
      const std::string alone = flag.alone == nullptr ? "" : fmt::format("{{{}}}", flag.alone);
      std::string& value = values_[flag.names];
      CLI::Option* option = flag.is_switch ? app.add_flag(flag.names + alone, value, help)
                                           : app.add_option(flag.names, value, help);
      option->group("The step, as in training")->take_last();
      names_[option] = flag.names;
    }
  }

  // In the order of the command line.
  Pairs given() const {
    Pairs all;
    auto pair = pairs_.begin();
    for (const CLI::Option* option : app_.parse_order()) {
      if (option == set_) all.emplace_back("--set", *pair++);
      if (const auto at = names_.find(option); at != names_.end())
        all.emplace_back(at->second, values_.at(at->second));
    }
    return all;
  }

 private:
  CLI::App& app_;
  const CLI::Option* set_ = nullptr;
  std::vector<std::string> pairs_;
  std::map<std::string, std::string> values_;
  std::map<const CLI::Option*, std::string> names_;
};

}  // namespace

int bench_step_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Times one iteration of training on random pictures, each phase of it, beside its floor: "
      "its convolutions and matrix products alone.",
      "gantrain bench step");
  std::string names = "stylegan2,stylegan3,r3gan,dcgan,pggan,stylegan1", preset, device = "cpu";
  Where where;
  bool no_floor = false;
  BenchStepRequest request;
  request.python = default_python();
  request.unset = own_variables();
  request.scripts = peer_scripts();
  request.threads = threads_per_rank({}, current_environment(), 1);
  const CLI::Range counts(1, 10000);
  auto* nets = app.add_option("--nets", names, "built-in networks: " + names)->take_last();
  app.add_option("--preset", preset, "a preset instead of the built-in networks")
      ->take_last()
      ->excludes(nets);
  app.add_flag("--profile", request.profile, "only what the time goes to, by operator");
  app.add_flag("--ref", request.ref, "time train.kernels=ref too");
  app.add_flag("--no-floor", no_floor, "do not time convolutions and products alone");
  app.add_option("--pairs", request.pairs, "measurements of each, in turns")->check(counts);
  app.add_option("--warm", request.warm, "iterations before those that are timed")->check(counts);
  app.add_option("--steps", request.steps, "timed iterations of a measurement")->check(counts);
  app.add_option("--threads", request.threads, "threads that compute")->check(CLI::Range(1, 1024));
  app.add_option("--python",
                 request.python,
                 "that has torch 2.11, for the peers (GANTRAIN_PYTHON); \"\": no peers")
      ->take_last();
  app.add_option("--device", device, "cpu, cuda, or auto: a GPU where one is")->take_last();
  app.add_option(
         "--official", where.official, "folder of the network's official PyTorch code, to run it")
      ->take_last();
  app.add_flag("--json", request.json, "one JSON line, last on standard output");
  const StepFlags flags(app);
  if (!parse(app, arguments)) return 0;
  check_official(where.official);
  request.cuda = where.cuda = computes_on_gpu(device);
  if (where.cuda && request.profile) {
    fail(Exit::kUsage,
         "--profile reads the host's clock at each operator, which says nothing of a GPU; profile "
         "a short run with nsys instead");
  }
  request.floor = !no_floor && !where.cuda;
  set_log({Level::kWarning, Level::kInfo, {}, ""});  // not of batches that differ from presets'
  for (const Row& row : chosen_rows(names, preset))
    request.nets.push_back(net_of(row, flags.given(), where));
  return call_trainer("bench step", message_of(request).dump(), request.cuda);
}

}  // namespace gantrain
