// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>

#include "bench/requests.h"
#include "bench/verb_bench.h"
#include "command/flags.h"
#include "config/full_schema.h"
#include "config/resolve.h"
#include "launch/where/devices.h"
#include "launch/where/environment.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "train/options.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;  // ConfigSources::flags

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const RecipeFacts& recipe : benched_recipes()) names.push_back(recipe.name);
  return names;
}

// The flags of `train` that say what one iteration computes.
bool is_about_the_step(const Flag& flag) {
  const std::string group = flag.group, key = flag.key;
  return group == "How" || (group == "What" && key != "data.path" && key != "data.cond");
}

// What the command line says.
struct StepCommand {
  std::string names = join(network_names(), ",");
  std::string preset;    // instead of these networks
  std::string official;  // folder of the network's official code, or ""
  BenchStepRequest request;
};

template <class Field>
void fields(StepCommand& o, Field&& field) {
  field("nets", o.names, said_again("--nets"), "built-in networks: " + o.names);
  field("preset", o.preset, said_again("--preset"), "a preset instead of the built-in networks");
  fields(o.request, field);
  field("official",
        o.official,
        said_again("--official"),
        "folder of the network's official PyTorch code, to run it");
  field("json", o.request.json, kBenchJson);
}

// How many of the highest resolutions compute in 16 bits.
std::string half_resolutions(const Config& config) {
  const bool blocks =
      config.get("precision.amp") != "off" && config.get("precision.mode") == "blocks";
  const std::string key = text_of(config.get("recipe")) + ".num_fp16_res";
  return blocks ? text_of(config.get(key)) : "0";
}

// Arguments of the scripts that do the same under PyTorch.
std::vector<BenchPeer> peers_of(const Config& config, const StepCommand& command) {
  std::vector<BenchPeer> peers;
  for (const BenchScript& script : find_recipe_facts(text_of(config.get("recipe"))).bench.scripts) {
    const bool fits = script.fits == nullptr || script.fits(config);
    if (!fits || (script.official && command.official.empty())) continue;
    std::vector<std::string> all;
    for (const auto& [flag, key] : script.arguments) {
      const Json& value = config.get(key);
      all.insert(all.end(), {flag, text_of(value.is_object() ? value.at("from") : value)});
    }
    all.insert(all.end(), script.more.begin(), script.more.end());
    if (script.official) all.insert(all.end(), {"--official", command.official});
    if (script.official && command.request.cuda)
      all.insert(all.end(), {"--fp16-res", half_resolutions(config)});
    if (command.request.cuda) all.insert(all.end(), {"--device", "cuda"});
    peers.push_back({script.title, {script.file, all}});
  }
  return peers;
}

BenchStepNet net_of(const RecipeFacts& recipe, const Pairs& flags, const StepCommand& command) {
  ConfigSources sources;
  sources.preset = recipe.bench.preset;
  for (const std::string& pair : recipe.bench.set) sources.flags.emplace_back("--set", pair);
  sources.flags.insert(sources.flags.end(), flags.begin(), flags.end());
  Config config = resolve(sources, {});
  choose_auto_values(config, Site{.ranks = 1, .on_gpu = command.request.cuda});
  check_graphs(config.read<TrainOptions>(), command.request.cuda);
  std::string about = recipe.bench.about;
  for (const auto& [flag, value] : flags) about += fmt::format(" {} {}", flag, value);
  return {recipe.name, about, config, peers_of(config, command)};
}

// The chosen ones; for a preset its name stands for the recipe's.
std::vector<RecipeFacts> chosen_networks(const StepCommand& command) {
  if (!command.preset.empty())
    return {{.name = command.preset, .bench = {.about = command.preset, .preset = command.preset}}};
  const std::vector<RecipeFacts> all = benched_recipes();
  std::vector<RecipeFacts> chosen;
  for (const std::string& word : split(command.names, ',')) {
    const auto at = std::find_if(
        all.begin(), all.end(), [&](const RecipeFacts& recipe) { return recipe.name == word; });
    if (at == all.end())
      fail(Exit::kUsage, "--nets {}: there are {}", command.names, join(network_names(), ", "));
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

// A script of the peers that needs no official code.
std::string any_script() {
  for (const RecipeFacts& recipe : benched_recipes()) {
    for (const BenchScript& script : recipe.bench.scripts) {
      if (!script.official) return script.file;
    }
  }
  return "";
}

int run_step(StepCommand& command, const Pairs& flags, const Options& options) {
  BenchStepRequest& request = command.request;
  complete_peers(request.peers, options, /*own_threads=*/true);
  if (!options.given("--threads")) request.threads = threads_per_rank({}, current_environment(), 1);
  check_official(command.official);
  request.cuda = computes_on_gpu(request.device);
  if (request.cuda && request.profile) {
    fail(Exit::kUsage,
         "--profile reads the host's clock at each operator, which says nothing of a GPU; profile "
         "a short run with nsys instead");
  }
  request.any_script = any_script();
  set_log({Level::kWarning, Level::kInfo, {}, ""});  // not of batches that differ from presets'
  for (const RecipeFacts& recipe : chosen_networks(command))
    request.nets.push_back(net_of(recipe, flags, command));
  return call_trainer("bench step", request, request.cuda);
}

// The command line: options of the benchmark, and those of the step.
struct StepLine {
  static constexpr const char* kTitle = "bench step";
  static constexpr const char* kAbout =
      "Times one iteration of training on random pictures, each phase of it, beside its floor: "
      "its convolutions and matrix products alone.";

  StepCommand command;
  Options options{kAbout, std::string("gantrain ") + kTitle};
  StepFlags flags = add();

 private:
  StepFlags add() {
    options.add(command);
    CLI::App& app = options.app();
    app.get_option("--preset")->excludes(app.get_option("--nets"));
    return StepFlags(app);
  }
};

}  // namespace

Verb bench_step_verb() {
  const auto describe = [] {
    StepLine line;
    return VerbDescription{StepLine::kTitle, StepLine::kAbout, line.options.describe()};
  };
  const auto run = [](const std::vector<std::string>& arguments) {
    StepLine line;
    if (!line.options.parse(arguments)) return 0;
    return run_step(line.command, line.flags.given(), line.options);
  };
  return {"step",
          "a training step, its phases and operators, beside its floor and PyTorch",
          describe,
          run};
}

}  // namespace gantrain
