// SPDX-License-Identifier: Apache-2.0
// gantrain bench ddp: what is measured, and what is predicted for more ranks.
#include <CLI/CLI.hpp>

#include "bench/bench_command.h"
#include "main/trainer_library.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

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
Config config_of_ranks(const DdpCase& net, int64_t ranks, std::optional<int64_t> batch) {
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
    measured.worlds.push_back({ranks, config_of_ranks(recipe.bench_ddp, ranks, command.batch)});
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
    if (!contains(counts, count)) counts.push_back(count);
  }
  for (const RecipeFacts& recipe : chosen) {
    const DdpCase& net = recipe.bench_ddp;
    BenchNet& timed = request.nets.emplace_back(BenchNet{recipe.name, net.about, net.peer, {}});
    for (const int64_t count : counts)
      timed.worlds.push_back({count, config_of_ranks(net, count, command.batch)});
  }
  return call_trainer("bench ddp", request, /*cuda=*/false);
}

}  // namespace

Verb bench_ddp_verb() {
  return verb_of("bench ddp",
                 "gradient synchronisation, beside PyTorch's; a prediction for more ranks",
                 "Times iterations in every way of synchronising gradients, on gloo ranks of one "
                 "thread each, and pairs the default with PyTorch's DistributedDataParallel; or "
                 "predicts the step time of more ranks (--simulate).",
                 run_ddp);
}

}  // namespace gantrain
