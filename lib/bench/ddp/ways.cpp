// SPDX-License-Identifier: Apache-2.0
#include "bench/common.h"
#include "bench/requests.h"
#include "bench/worlds.h"
#include "core/torch.h"
#include "util/sample.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr int64_t kWarm = 2;  // iterations before those that are timed
constexpr const char* kPeer = "ddp.py";

struct Way {
  const char* name;
  const char* mode;
  const char* scope;
};
constexpr std::array<Way, 4> kWays = {{{"wrapper", "wrapper", "net"},
                                       {"dynamic, net", "dynamic", "net"},
                                       {"dynamic, whole", "dynamic", "whole"},
                                       {"flat", "flat", "net"}}};
constexpr const Way& kDefault = kWays[1];

std::vector<StepTimes> measure_way(
    FindRecipe find_recipe, Config config, const Way& way, int64_t ranks, int64_t steps) {
  config.set("dist.ddp_mode", way.mode, "bench");
  config.set("dist.ddp_scope", way.scope, "bench");
  return time_ranks(ranks, {config, find_recipe(text_of(config.get("recipe"))), kWarm, steps});
}

// All measurements of one way.
struct MeasuredWay {
  std::vector<double> seconds, cpu;  // of rank 0's iterations
  std::vector<double> exposed, skew;
  double bytes = 0, collectives = 0;  // of an iteration
  int64_t buckets = 0;                // of its phases together

  void add(const std::vector<StepTimes>& ranks) {
    const StepTimes& first = ranks.front();
    seconds.insert(seconds.end(), first.seconds.begin(), first.seconds.end());
    cpu.insert(cpu.end(), first.cpu.begin(), first.cpu.end());
    const Communication c = communication_of(ranks);
    exposed.push_back(c.exposed);
    skew.push_back(c.skew);
    bytes = collectives = 0;
    buckets = 0;
    for (const auto& [name, phase] : first.phases) {
      bytes += phase.bytes;
      collectives += phase.collectives;
      buckets += phase.buckets;
    }
  }

  Json to_json(const Way& way) const {
    const double step = median(seconds);
    return {{"way", way.name},
            {"seconds", step},
            {"quartiles", {quantile(seconds, 0.25), quantile(seconds, 0.75)}},
            {"cpu", median(cpu)},
            {"exposed", median(exposed) / step},
            {"skew", median(skew) / step},
            {"bytes", bytes},
            {"collectives", collectives},
            {"buckets", buckets}};
  }
};

Json measure_ways(const BenchWorld& world, const BenchDdpRequest& request, FindRecipe find_recipe) {
  std::array<MeasuredWay, kWays.size()> measured;
  std::vector<std::function<void()>> turns;
  for (size_t i = 0; i < kWays.size(); ++i) {
    turns.emplace_back([&, i] {
      measured[i].add(measure_way(find_recipe, world.config, kWays[i], world.ranks, request.steps));
    });
  }
  in_turns(request.rounds, turns);
  Json rows = Json::array();
  for (size_t i = 0; i < kWays.size(); ++i) rows.push_back(measured[i].to_json(kWays[i]));
  return rows;
}

void print_ways(const Json& rows, int64_t ranks, int64_t batch) {
  fmt::print("\n{}, batch {}\n", counted(ranks, "rank"), batch);
  fmt::print(
      "  way                   step         quartiles       cpu   exposed    skew       MB  "
      "collectives  buckets\n");
  for (const Json& row : rows) {
    fmt::print(
        "  {:<16} {:>7.3f} s {:>7.3f} .. {:<6.3f} {:>7.3f} s {:>7.1f} % {:>5.1f} % {:>8.2f} "
        "{:>12.1f} {:>8}\n",
        row["way"].get<std::string>(),
        row["seconds"].get<double>(),
        row["quartiles"][0].get<double>(),
        row["quartiles"][1].get<double>(),
        row["cpu"].get<double>(),
        100 * row["exposed"].get<double>(),
        100 * row["skew"].get<double>(),
        row["bytes"].get<double>() / 1e6,
        row["collectives"].get<double>(),
        row["buckets"].get<int64_t>());
  }
}

// Ours (the default way) and the peer's in pairs, in the order AB BA AB ...
Json compare_with_peer(const BenchNet& net,
                       const BenchWorld& world,
                       const BenchDdpRequest& request,
                       FindRecipe find_recipe) {
  const auto& [ranks, config] = world;
  const int64_t batch = config.get("train.batch");
  const int64_t steps = request.steps;
  std::vector<std::string> arguments = net.peer;
  append_flags(arguments, {{"--batch", batch}, {"--steps", steps}, {"--warm", kWarm}});
  Json result = {{"ranks", ranks}, {"batch", batch}, {"pairs", Json::array()}};
  std::vector<double> seconds, cpu, their_seconds, their_cpu;  // of an iteration
  in_turns(request.pairs,
           {[&] {
              const auto times = measure_way(find_recipe, config, kDefault, ranks, steps).front();
              seconds.push_back(median(times.seconds));
              cpu.push_back(median(times.cpu));
            },
            [&] {
              const Json answer = run_peer(request.peers, {kPeer, arguments, ranks});
              their_seconds.push_back(answer.at("median"));
              their_cpu.push_back(answer.at("cpu_median"));
              result["torch"] = answer.at("torch");
            }});
  for (size_t i = 0; i < seconds.size(); ++i)
    result["pairs"].push_back({seconds[i], their_seconds[i], cpu[i], their_cpu[i]});
  result.update(ratio_of(quotients(seconds, their_seconds)));
  result["cpu"] = ratio_of(quotients(cpu, their_cpu));
  return result;
}

void print_comparison(const Json& c) {
  fmt::print(
      "\n{}, batch {}: {} against PyTorch {}'s DistributedDataParallel: {} of its time, "
      "{} of its processor time (95 % intervals, {} pairs)\n",
      counted(c.at("ranks").get<int64_t>(), "rank"),
      c.at("batch").get<int64_t>(),
      kDefault.name,
      c.at("torch").get<std::string>(),
      ratio_text(c),
      ratio_text(c.at("cpu")),
      c.at("pairs").size());
}

}  // namespace

int bench_ddp(const BenchDdpRequest& request, FindRecipe find_recipe) {
  const bool wanted = request.pairs > 0;
  const std::string reason = wanted ? why_not(request.peers, kPeer, "2.11") : "--pairs 0";
  Json result = {{"bench", "ddp"}, {"load", {load_average()}}, {"nets", Json::array()}};
  fmt::print(
      "exposed: share of the step in which nothing computes, because the last rank has launched "
      "its last collective;\nskew: what the other ranks wait for that one besides; cpu: processor "
      "time of a "
      "rank. load {:.1f}\n",
      load_average());
  for (const BenchNet& net : request.nets) {
    fmt::print("\n{}\n", net.about);
    Json row = {{"name", net.name}, {"worlds", Json::array()}, {"peer", Json::array()}};
    for (const BenchWorld& world : net.worlds) {
      const int64_t batch = world.config.get("train.batch");
      const Json ways = measure_ways(world, request, find_recipe);
      print_ways(ways, world.ranks, batch);
      std::fflush(stdout);
      row["worlds"].push_back({{"ranks", world.ranks}, {"batch", batch}, {"ways", ways}});
      if (net.peer.empty() || !reason.empty()) continue;
      row["peer"].push_back(compare_with_peer(net, world, request, find_recipe));
      print_comparison(row["peer"].back());
      std::fflush(stdout);
    }
    result["nets"].push_back(row);
  }
  return finish_bench(result, {request.json, "PyTorch", reason});
}

}  // namespace gantrain
