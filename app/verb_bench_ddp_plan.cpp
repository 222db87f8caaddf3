// SPDX-License-Identifier: Apache-2.0
#include "verb_bench_ddp_plan.h"

#include <CLI/CLI.hpp>

#include "bench_ddp_nets.h"
#include "bench_ddp_plan.h"
#include "config/message.h"
#include "ddp_units.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kGroup = "Step time of more ranks, from what one rank does";

std::vector<DdpNet> nets_of(const PlanFlags& flags, const PlanNets& nets) {
  std::vector<DdpNet> chosen;
  if (flags.preset.empty()) {
    chosen = ddp_nets(nets.names);
  } else {
    if (!nets.batch)
      fail(Exit::kUsage, "--preset {} needs --batch, the pictures of a rank", flags.preset);
    chosen.push_back({flags.preset, flags.preset, flags.preset, {}, *nets.batch, {}});
  }
  for (DdpNet& net : chosen) {
    net.set.insert(net.set.end(), flags.set.begin(), flags.set.end());
    for (const std::string& pair : flags.set) net.about += " " + pair;
  }
  return chosen;
}

BenchNet measured_net(const DdpNet& net, const PlanFlags& flags, const PlanNets& nets) {
  BenchNet measured{net.name, net.about, {}, {}};
  for (const int64_t ranks : {1, 2, 4}) {
    if (ranks > 1 && !flags.check) continue;
    measured.worlds.push_back({ranks, ddp_config(net, ranks, nets.batch)});
  }
  const Json& values = measured.worlds.front().config.at("values");
  if (values.at("dist.sync_bn").at("value") == true)
    fail(Exit::kUsage, "dist.sync_bn=on: the model has no all-reduces inside of passes");
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

}  // namespace

void add_plan_flags(CLI::App& app, PlanFlags& flags) {
  const auto of_plan = [](CLI::Option* option) { return option->group(kGroup)->take_last(); };
  of_plan(app.add_option("--simulate", flags.ranks, "predict 8, 16, ... up to so many ranks")
              ->check(CLI::Range(1, 65536)));
  of_plan(
      app.add_option("--bandwidth",
                     flags.bandwidth,
                     "of a rank between nodes, each way: GB/s, or 400Gb/s; 50GB/s if left out"));
  of_plan(app.add_option(
      "--latency", flags.latency, "from node to node, in microseconds; 10 if left out"));
  of_plan(app.add_option("--ranks-per-node", flags.ranks_per_node, "8 if left out")
              ->check(CLI::Range(1, 1024)));
  of_plan(app.add_option(
      "--local-bandwidth", flags.local_bandwidth, "within a node; 450GB/s if left out"));
  of_plan(app.add_option("--local-latency", flags.local_latency, "within a node; 1 if left out"));
  of_plan(app.add_option("--compute-ms",
                         flags.compute,
                         "an iteration of one rank as measured elsewhere, 180, or of each phase, "
                         "D=60,G=80; else as measured here with one thread"));
  of_plan(app.add_option("--graphs-save-ms",
                         flags.graphs_save_ms,
                         "what CUDA graphs save in an iteration of one rank")
              ->check(CLI::Range(0.0, 1e9)));
  of_plan(app.add_option("--global-batch",
                         flags.global_batch,
                         "pictures of all ranks together, instead of as many a rank on all rows")
              ->check(CLI::Range(1, 1 << 30)));
  of_plan(app.add_option("--preset", flags.preset, "instead of --nets; with --batch"));
  app.add_option("--set", flags.set, "key=value, any key of gantrain help keys")->group(kGroup);
  of_plan(app.add_option(
      "--from", flags.from, "measure nothing: a file with what --json printed before"));
  app.add_flag("--check", flags.check, "compare the model with 1, 2 and 4 local ranks")
      ->group(kGroup);
}

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

int plan_ddp(const PlanFlags& flags, const PlanNets& nets) {
  BenchDdpPlanRequest request;
  request.plan = request_of(flags);
  if (!flags.from.empty()) return plan_from_file(flags, request.plan, nets.json);
  request.steps = nets.steps;
  request.json = nets.json;
  for (const DdpNet& net : nets_of(flags, nets))
    request.nets.push_back(measured_net(net, flags, nets));
  check_given(flags, request.nets.size());
  return call_trainer("bench ddp plan", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace gantrain
