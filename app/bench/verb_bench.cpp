// SPDX-License-Identifier: Apache-2.0
// gantrain bench WHAT: what each benchmark is asked, made of its command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "bench/bench_command.h"
#include "command/flags.h"
#include "launch/where/devices.h"
#include "launch/where/environment.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "train/options.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Those that `bench step` measures, in the order of its table.
std::vector<RecipeFacts> benched_recipes() {
  std::vector<RecipeFacts> all = recipes_with(&RecipeFacts::bench);
  std::ranges::sort(all, [](const RecipeFacts& a, const RecipeFacts& b) {
    return a.bench.place < b.bench.place;
  });
  return all;
}

void complete_threads(int64_t& threads, const Options& options) {
  if (!options.given("--threads")) threads = threads_per_rank({}, current_environment(), 1);
}

int run_ops(BenchOpsRequest& request, Options& options) {
  complete_threads(request.threads, options);
  request.cuda = computes_on_gpu(request.device);
  check_word("--dtype", request.dtype, {"float32", "float16", "bfloat16"});
  check_word("--layout", request.layout, {"contiguous", "channels-last"});
  if (!request.cuda && request.dtype != "float32") {
    fail(Exit::kUsage,
         "--dtype {}: on a CPU the operators have kernels for float32 alone; give --device cuda",
         request.dtype);
  }
  // A GPU needs more work at a time to be busy, and more bytes than its cache holds.
  if (request.cuda && !options.given("--batch")) request.batch = 32;
  if (request.cuda && !options.given("--channels")) request.channels = 128;
  if (request.cuda && !options.given("--pixels")) request.pixels = 128;
  return call_trainer("bench ops", request, request.cuda);
}

int run_data(BenchDataRequest& request, Options& options) {
  complete_peers(request.peers, options, /*own_threads=*/false);
  quieten();
  return call_trainer("bench data", request, /*cuda=*/false);
}

int run_save(BenchSaveRequest& request, Options& options) {
  complete_threads(request.threads, options);
  quieten();
  std::string preset = request.about = request.preset;
  std::vector<std::string> set = request.set;
  if (preset.empty()) {
    const RecipeFacts usual = benched_recipes().front();
    preset = usual.bench.preset;
    request.about = usual.title + ", 64 pixels";
    set.insert(set.begin(), {"data.resolution=64", "train.batch=8", "train.micro_batch=8"});
  }
  request.config = config_of(preset, set, {}, Site{});
  return call_trainer("bench save", request, /*cuda=*/false);
}

int run_launch(BenchLaunchRequest& request, Options& options) {
  request.counts = rank_numbers(request.ranks, 1, 256);
  complete_peers(request.peers, options, /*own_threads=*/false);
  request.program = (executable_folder() / "gantrain").string();
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (request.arguments.empty()) request.arguments = recipe.tiny_run;
  }
  request.load = [] { trainer_function(kVerbMain, /*cuda=*/false); };
  return bench_launch(request);
}

// The flags of `train` that say what one iteration computes.
bool is_about_the_step(const Flag& flag) {
  const std::string group = flag.group, key = flag.key;
  return group == "How" || (group == "What" && key != "data.path" && key != "data.cond");
}

// What the command line says.
struct StepCommand {
  std::string names = names_of(benched_recipes(), ",");
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
  if (config.get("precision.amp") == "off" || config.get("precision.mode") != "blocks") return "0";
  return text_of(config.get(text_of(config.get("recipe")) + ".num_fp16_res"));
}

// Says what this configuration does and the script does not: then it is not the same work.
void tell_differences(const Config& config, const BenchScript& script, bool knows_half) {
  std::map<std::string, std::string> same = {{"train.dtype", "float32"}, {"ada.mode", "none"}};
  if (!knows_half) same["precision.amp"] = "off";
  std::vector<std::string> ours, theirs;
  for (const auto& [key, value] : same) {
    if (!config.has(key) || text_of(config.get(key)) == value) continue;
    ours.push_back(key + "=" + text_of(config.get(key)));
    theirs.push_back("--set " + key + "=" + value);
  }
  if (!ours.empty()) {
    warn("{} does other work, without {}; the same with {}",
         script.title,
         join(ours, ", "),
         join(theirs, " "));
  }
}

// Arguments of the scripts that do the same under PyTorch.
std::vector<BenchPeer> peers_of(const Config& config, const StepCommand& command) {
  std::vector<BenchPeer> peers;
  for (const BenchScript& script : find_recipe_facts(text_of(config.get("recipe"))).bench.scripts) {
    if (script.official && command.official.empty()) continue;
    if (script.fits != nullptr && !script.fits(config)) {
      if (script.official)
        warn("the official code is left out: it does not train what this configuration asks for");
      continue;
    }
    std::vector<std::string> all;
    for (const auto& [flag, key] : script.arguments) {
      const Json& value = config.get(key);
      all.insert(all.end(), {flag, text_of(value.is_object() ? value.at("from") : value)});
    }
    all.insert(all.end(), script.more.begin(), script.more.end());
    if (script.official) all.insert(all.end(), {"--official", command.official});
    const bool knows_half = script.official && command.request.cuda;
    tell_differences(config, script, knows_half && config.get("precision.mode") == "blocks");
    if (knows_half) all.insert(all.end(), {"--fp16-res", half_resolutions(config)});
    if (command.request.cuda) all.insert(all.end(), {"--device", "cuda"});
    peers.push_back({script.title, {script.file, all}});
  }
  return peers;
}

BenchStepNet net_of(const RecipeFacts& recipe, const Pairs& flags, const StepCommand& command) {
  const bool on_gpu = command.request.cuda || command.request.count;
  const Config config =
      config_of(recipe.bench.preset, recipe.bench.set, flags, {.ranks = 1, .on_gpu = on_gpu});
  check_graphs(config.read<TrainOptions>(), on_gpu);
  std::string about = recipe.bench.about;
  for (const auto& [flag, value] : flags) about += fmt::format(" {} {}", flag, value);
  const bool measures = !command.request.count;
  return {
      recipe.name, about, config, measures ? peers_of(config, command) : std::vector<BenchPeer>()};
}

// The chosen ones; for a preset its name stands for the recipe's.
std::vector<RecipeFacts> chosen_networks(const StepCommand& command) {
  if (!command.preset.empty())
    return {{.name = command.preset, .bench = {.about = command.preset, .preset = command.preset}}};
  return networks_named(command.names, benched_recipes());
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

// The command line: options of the benchmark, and those of the training step.
struct StepLine {
  StepCommand command;
  KeyFlags keys;

  void declare(Options& options) {
    options.add(command);
    options.app().get_option("--preset")->excludes(options.app().get_option("--nets"));
    keys.add_set(options, said("--set"));
    keys.add_flags(options,
                   Config(full_schema(recipe_facts().front().name)),
                   is_about_the_step,
                   "The step, as in training");
  }
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

int run_step(StepLine& line, Options& options) {
  StepCommand& command = line.command;
  BenchStepRequest& request = command.request;
  complete_peers(request.peers, options, /*own_threads=*/true);
  complete_threads(request.threads, options);
  check_official(command.official);
  request.cuda = computes_on_gpu(request.device);
  if (request.cuda && request.profile) {
    fail(Exit::kUsage,
         "--profile reads the host's clock at each operator, which says nothing of a GPU; profile "
         "a short run with nsys instead");
  }
  if (request.count && (request.cuda || request.profile || request.ref)) {
    fail(Exit::kUsage,
         "--count measures nothing: it goes without --device cuda, --profile and --ref; kernels "
         "composed of LibTorch's operators are counted with --kernels ref");
  }
  request.any_script = any_script();
  quieten();
  for (const RecipeFacts& recipe : chosen_networks(command))
    request.nets.push_back(net_of(recipe, line.keys.given(options), command));
  return call_trainer("bench step", request, request.cuda);
}

}  // namespace

Verb bench_verb() {
  return verb_of_parts(
      "bench",
      "how fast training, data, saving and communication are on this machine",
      {verb_of("bench step",
               "a training step, beside its convolutions and products alone and PyTorch",
               "Times one iteration of training on random pictures and each of its phases, beside "
               "its convolutions and matrix products alone, which no faster code could do without.",
               run_step),
       verb_of("bench ops",
               "operators that move memory, beside the machine's copy speed",
               "Times operators that move memory: gantrain's, the same composed of LibTorch's, and "
               "what the machine needs to copy as many bytes.",
               run_ops),
       verb_of(
           "bench launch",
           "the start of N ranks up to their first all-reduce, beside torchrun's",
           "Times from the start of the command to the first all-reduce of its ranks, beside "
           "one start of the program and one load of its library, and beside torchrun. With "
           "--programs: what gantrain launch and torchrun take for a program that does nothing, "
           "what is left when they are killed, and whether they name the rank that failed first.",
           run_launch),
       verb_of("bench data",
               "the loader, beside the decoder alone and Pillow",
               "Times the loader with one thread on JPEG and PNG pictures that it makes, in a "
               "folder and in a zip, beside the decoder alone on the same bytes and beside Pillow "
               "with zipfile.",
               run_data),
       verb_of("bench save",
               "writing a state and a model, beside writing as many bytes",
               "Times the state and the model that a run writes, beside writing and flushing as "
               "many bytes to the same disk, and what training sees of it: the pause for a copy, "
               "beside a memcpy, and iterations beside the writing. StyleGAN2 of 64 pixels, or a "
               "preset.",
               run_save),
       bench_ddp_verb(),
       bench_modes_verb()});
}

void complete_peers(Peers& peers, const Options& options, bool own_threads) {
  const char* python = std::getenv("GANTRAIN_PYTHON");
  if (!options.given("--python"))
    peers.python = python == nullptr || *python == 0 ? "python3" : python;
  peers.scripts = (executable_folder() / "../scripts/peers").string();
  if (!own_threads) return;
  for (const auto& [name, value] : idle_threads(current_environment(), usable_cores()).variables)
    peers.unset.push_back(name);
}

std::string names_of(const std::vector<RecipeFacts>& recipes, const std::string& between) {
  std::vector<std::string> names;
  for (const RecipeFacts& recipe : recipes) names.push_back(recipe.name);
  return join(names, between);
}

std::vector<RecipeFacts> networks_named(const std::string& names,
                                        const std::vector<RecipeFacts>& all) {
  std::vector<RecipeFacts> chosen;
  for (const std::string& word : split(names, ',')) {
    const auto at =
        std::ranges::find_if(all, [&](const RecipeFacts& recipe) { return recipe.name == word; });
    if (at == all.end()) fail(Exit::kUsage, "--nets {}: there are {}", names, names_of(all, ", "));
    chosen.push_back(*at);
  }
  return chosen;
}

std::vector<int64_t> rank_numbers(const std::string& text, int64_t least, int64_t most) {
  std::vector<int64_t> all;
  for (const std::string& word : split(text, ',')) {
    const auto number = parse_int(word);
    if (!number || *number < least || *number > most) {
      fail(
          Exit::kUsage, "--ranks {}: numbers from {} to {} with commas between", text, least, most);
    }
    all.push_back(*number);
  }
  return all;
}

void quieten() { set_log({Level::kWarning, Level::kInfo, {}, ""}); }

Config config_of(const std::string& preset,
                 const std::vector<std::string>& set,
                 const Pairs& flags,
                 const Site& site) {
  ConfigSources sources;
  sources.preset = preset;
  for (const std::string& pair : set) sources.flags.emplace_back("--set", pair);
  sources.flags.insert(sources.flags.end(), flags.begin(), flags.end());
  Config config = resolve(sources, {});
  choose_auto_values(config, site);
  return config;
}

}  // namespace gantrain
