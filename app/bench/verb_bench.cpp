// SPDX-License-Identifier: Apache-2.0
// gantrain bench WHAT: what each benchmark is asked, made of its command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "bench/requests.h"
#include "command/flags.h"
#include "config/resolve.h"
#include "launch/where/devices.h"
#include "launch/where/environment.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "train/options.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;  // ConfigSources::flags

// Completes what the command line says of the peers. Without --python their interpreter is
// GANTRAIN_PYTHON, or python3. `own_threads`: they are to do without the environment variables
// that this program sets for itself before it computes.
void complete_peers(Peers& peers, const Options& options, bool own_threads) {
  const char* python = std::getenv("GANTRAIN_PYTHON");
  if (!options.given("--python"))
    peers.python = python == nullptr || *python == 0 ? "python3" : python;
  peers.scripts = (executable_folder() / "../scripts/peers").string();
  if (!own_threads) return;
  for (const auto& [name, value] : idle_threads(current_environment()).variables)
    peers.unset.push_back(name);
}

std::string names_of(const std::vector<RecipeFacts>& recipes, const std::string& between) {
  std::vector<std::string> names;
  for (const RecipeFacts& recipe : recipes) names.push_back(recipe.name);
  return join(names, between);
}

// Reads --nets and --ranks, words with commas between. Throw UserError(kUsage) that says what there
// is.
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

// The recipes with a network for one of the benchmarks.
template <class Case>
std::vector<RecipeFacts> recipes_with(Case RecipeFacts::*network) {
  std::vector<RecipeFacts> all = recipe_facts();
  std::erase_if(all, [&](const RecipeFacts& recipe) { return (recipe.*network).preset.empty(); });
  return all;
}

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

// Not of batches that differ from presets'.
void quieten() { set_log({Level::kWarning, Level::kInfo, {}, ""}); }

// The configuration of a preset with --set of these pairs, then these flags.
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
  const Config config = config_of(
      recipe.bench.preset, recipe.bench.set, flags, {.ranks = 1, .on_gpu = command.request.cuda});
  check_graphs(config.read<TrainOptions>(), command.request.cuda);
  std::string about = recipe.bench.about;
  for (const auto& [flag, value] : flags) about += fmt::format(" {} {}", flag, value);
  return {recipe.name, about, config, peers_of(config, command)};
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
  request.any_script = any_script();
  quieten();
  for (const RecipeFacts& recipe : chosen_networks(command))
    request.nets.push_back(net_of(recipe, line.keys.given(options), command));
  return call_trainer("bench step", request, request.cuda);
}

// Those that `bench ddp` measures.
std::vector<RecipeFacts> networks() { return recipes_with(&RecipeFacts::bench_ddp); }

std::string batch_help() {
  std::vector<std::string> batches;
  for (const RecipeFacts& recipe : networks())
    batches.push_back(std::to_string(recipe.bench_ddp.batch));
  return "pictures of a rank; " + join(batches, " and ") + " if left out";
}

constexpr const char* kGroup = "Step time of more ranks, from what one rank does";

// The flags of `gantrain bench ddp --simulate N`, as they were written.
struct PlanFlags {
  int64_t ranks = 0;  // 0: nothing is simulated
  std::string bandwidth = "50GB/s", latency = "10us";
  std::string local_bandwidth = "450GB/s", local_latency = "1us";
  int64_t ranks_per_node = 8;
  std::string preset, from, compute;
  std::vector<std::string> set;
  double graphs_save_ms = 0;
  std::optional<int64_t> global_batch;
  bool check = false;
};

constexpr Said kPlan{.group = kGroup, .last_wins = true};

template <class Field>
void fields(PlanFlags& o, Field&& field) {
  field("simulate", o.ranks, kPlan, between(1, 65536), "predict 8, 16, ... up to so many ranks");
  field("bandwidth",
        o.bandwidth,
        kPlan,
        "bandwidth of a rank between nodes, each way: GB/s, or 400Gb/s; 50GB/s if left out");
  field("latency", o.latency, kPlan, "latency from node to node, in microseconds; 10 if left out");
  field("ranks_per_node",
        o.ranks_per_node,
        kPlan,
        between(1, 1024),
        "ranks of a node; 8 if left out");
  field(
      "local_bandwidth", o.local_bandwidth, kPlan, "bandwidth within a node; 450GB/s if left out");
  field("local_latency",
        o.local_latency,
        kPlan,
        "latency within a node, in microseconds; 1 if left out");
  field("compute_ms",
        o.compute,
        kPlan,
        "an iteration of one rank as measured elsewhere, 180, or of each phase, D=60,G=80; else as "
        "measured here with one thread");
  field("graphs_save_ms",
        o.graphs_save_ms,
        kPlan,
        between(0, 1e9),
        "what CUDA graphs save in an iteration of one rank");
  field("global_batch",
        o.global_batch,
        kPlan,
        between(1, 1 << 30),
        "batch of all ranks together; without it every rank has the same batch, however many there "
        "are");
  field("preset", o.preset, kPlan, "instead of --nets; with --batch");
  field("set", o.set, Said{.group = kGroup}, "key=value, any key of gantrain help keys");
  field("from", o.from, kPlan, "measure nothing: a file with what --json printed before");
  field("check",
        o.check,
        Said{.group = kGroup},
        "compare the prediction with 1, 2 and 4 local ranks");
}

// What the command line says.
struct DdpCommand {
  std::string ranks = "2,4";
  std::string names = names_of(networks(), ",");
  std::optional<int64_t> batch;
  BenchDdpRequest request;
  PlanFlags plan;
};

template <class Field>
void fields(DdpCommand& o, Field&& field) {
  field("ranks", o.ranks, said_again("--ranks"), "numbers of ranks");
  field("nets", o.names, said_again("--nets"), "networks: " + names_of(networks(), ", "));
  field("batch", o.batch, kBenchCounts, batch_help());
  fields(o.request, field);
  fields(o.plan, field);
}

// The configuration of so many ranks, without the synchronisation, which the benchmark sets.
// `batch` is the number of pictures of a rank, the net's own if left out.
Config config_of(const DdpCase& net, int64_t ranks, std::optional<int64_t> batch) {
  const int64_t all = batch.value_or(net.batch) * ranks;
  return config_of(net.preset, net.set, {{"--batch", std::to_string(all)}}, {.ranks = ranks});
}

// The chosen ones with what --set changes in them; for a preset its name stands for the recipe's.
std::vector<RecipeFacts> planned_networks(const DdpCommand& command) {
  const PlanFlags& flags = command.plan;
  std::vector<RecipeFacts> chosen;
  if (flags.preset.empty()) {
    chosen = networks_named(command.names, networks());
  } else {
    if (!command.batch)
      fail(Exit::kUsage, "--preset {} needs --batch, the pictures of a rank", flags.preset);
    chosen = {
        {.name = flags.preset,
         .bench_ddp = {.about = flags.preset, .preset = flags.preset, .batch = *command.batch}}};
  }
  for (RecipeFacts& recipe : chosen) {
    DdpCase& net = recipe.bench_ddp;
    net.set.insert(net.set.end(), flags.set.begin(), flags.set.end());
    for (const std::string& pair : flags.set) net.about += " " + pair;
  }
  return chosen;
}

BenchNet measured_net(const RecipeFacts& recipe, const DdpCommand& command) {
  BenchNet measured{recipe.name, recipe.bench_ddp.about, {}, {}};
  for (const int64_t ranks : {1, 2, 4}) {
    if (ranks > 1 && !command.plan.check) continue;
    measured.worlds.push_back({ranks, config_of(recipe.bench_ddp, ranks, command.batch)});
  }
  if (measured.worlds.front().config.get("dist.sync_bn") == true)
    fail(Exit::kUsage, "dist.sync_bn=on: the prediction knows no all-reduces within a pass");
  return measured;
}

PlanRequest request_of(const PlanFlags& flags) {
  PlanRequest request;
  request.ranks = flags.ranks;
  request.cluster = {
      {bandwidth_of("--bandwidth", flags.bandwidth), latency_of("--latency", flags.latency)},
      {bandwidth_of("--local-bandwidth", flags.local_bandwidth),
       latency_of("--local-latency", flags.local_latency)},
      flags.ranks_per_node};
  if (!flags.compute.empty()) request.given = given_times_of("--compute-ms", flags.compute);
  request.graphs_save = 1e-3 * flags.graphs_save_ms;
  request.global_batch = flags.global_batch;
  return request;
}

// The times belong to one pair of networks.
void check_given(const PlanFlags& flags, size_t nets) {
  if (nets > 1 && !flags.compute.empty())
    fail(Exit::kUsage, "--compute-ms is of one pair of networks: choose it by --nets or --preset");
}

int plan_from_file(const PlanFlags& flags, const PlanRequest& request, bool json) {
  const std::vector<Workload> workloads = read_workloads(flags.from);
  check_given(flags, workloads.size());
  Json result = {{"bench", "ddp"}, {"plan", report_cluster(request)}, {"nets", Json::array()}};
  for (const Workload& work : workloads) result["nets"].push_back(report_plan(work, request));
  if (json) fmt::print("{}\n", result.dump());
  return 0;
}

// Whether the command line asks for a plan. Throws UserError(kUsage) that names a flag which does
// not go with the others.
bool wants_plan(const CLI::App& app, const PlanFlags& flags) {
  const bool wanted = flags.ranks > 0;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_name();
    if (!wanted && option->get_group() == kGroup) fail(Exit::kUsage, "{} needs --simulate N", name);
    for (const char* other : {"--ranks", "--rounds", "--pairs", "--python"}) {
      if (wanted && name == other)
        fail(Exit::kUsage, "{} does not go with --simulate, which measures one rank", name);
    }
    for (const char* other : {"--nets", "--batch", "--steps", "--preset", "--set", "--check"}) {
      if (!flags.from.empty() && name == other)
        fail(Exit::kUsage, "{} does not go with --from, which measures nothing", name);
    }
    if (!flags.preset.empty() && name == "--nets")
      fail(Exit::kUsage, "--nets and --preset exclude each other");
  }
  return wanted;
}

int plan_ddp(DdpCommand& command) {
  const PlanFlags& flags = command.plan;
  BenchDdpRequest& request = command.request;
  request.plan = request_of(flags);
  if (!flags.from.empty()) return plan_from_file(flags, *request.plan, request.json);
  for (const RecipeFacts& recipe : planned_networks(command))
    request.nets.push_back(measured_net(recipe, command));
  check_given(flags, request.nets.size());
  return call_trainer("bench ddp plan", request, /*cuda=*/false);
}

int run_ddp(DdpCommand& command, Options& options) {
  BenchDdpRequest& request = command.request;
  complete_peers(request.peers, options, /*own_threads=*/true);
  quieten();
  if (wants_plan(options.app(), command.plan)) return plan_ddp(command);
  const std::vector<RecipeFacts> chosen = networks_named(command.names, networks());
  std::vector<int64_t> counts;  // each once
  for (const int64_t count : rank_numbers(command.ranks, 2, 64)) {
    if (std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
  }
  for (const RecipeFacts& recipe : chosen) {
    const DdpCase& net = recipe.bench_ddp;
    BenchNet& timed = request.nets.emplace_back(BenchNet{recipe.name, net.about, net.peer, {}});
    for (const int64_t count : counts)
      timed.worlds.push_back({count, config_of(net, count, command.batch)});
  }
  return call_trainer("bench ddp", request, /*cuda=*/false);
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
       verb_of("bench launch",
               "the start of N ranks up to their first all-reduce, beside torchrun's",
               "Times from the start of the command to the first all-reduce of its ranks, beside "
               "one start of the program and one load of its library, and beside torchrun.",
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
       verb_of("bench ddp",
               "gradient synchronisation, beside PyTorch's; a prediction for more ranks",
               "Times iterations in every way of synchronising gradients, on gloo ranks of one "
               "thread each, and pairs the default with PyTorch's DistributedDataParallel; or "
               "predicts the step time of more ranks (--simulate).",
               run_ddp)});
}

}  // namespace gantrain
