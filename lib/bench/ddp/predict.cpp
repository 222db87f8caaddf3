// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "bench/common.h"
#include "bench/ddp/plan.h"
#include "bench/requests.h"
#include "bench/worlds.h"
#include "config/config.h"
#include "config/schema.h"
#include "core/torch.h"
#include "distributed/options.h"
#include "train/step/training_step.h"
#include "util/rank_info.h"
#include "util/sample.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// When, in the last backward pass of each phase, each gradient was added to its parameter.
class GradientClock {
 public:
  // Keeps the parameters of `step` under watch. Their order is the one in which they are reduced.
  void watch(const TrainingStep& step) {
    for (const PlayerState& state : step.players()) watch(state);
    for (const Phase& phase : step.recipe().phases()) player_of_[phase.name] = phase.player.name;
    shared_bytes_ = 0;
    for (const StateTensor& item : step.state()) {
      const bool average = starts_with(item.name, "G_ema/");
      if (item.kind == StateKind::kRunningStatistic && !average)
        shared_bytes_ += static_cast<double>(item.tensor.nbytes());
    }
  }

  // StepBench::doing.
  void next(const std::string& phase, const std::string& part) {
    const double now = monotonic_seconds();
    if (phase != phase_) {
      if (!phase_.empty()) end_phase(now);
      phase_ = phase;
      began_ = now;
    }
    if (part == "backward") {
      backward_ = now;
      for (auto& [player, parameters] : parameters_) {
        for (Watched& each : parameters) each.ready = now;  // it may take no part
      }
    }
    if (part == "step") update_ = now;
  }

  // Without intervals, which StepTimes knows.
  std::vector<PhaseWork> phases() const {
    std::vector<PhaseWork> all;
    for (const std::string& name : order_) {
      const Measured& measured = measured_.at(name);
      PhaseWork phase{name,
                      1,
                      median(measured.forward),
                      median(measured.backward),
                      median(measured.update),
                      {}};
      const std::vector<Watched>& parameters = parameters_.at(player_of_.at(name));
      for (size_t i = 0; i < parameters.size(); ++i)
        phase.gradients.push_back({parameters[i].bytes, median(measured.ready[i])});
      all.push_back(phase);
    }
    return all;
  }
  double shared_bytes() const { return shared_bytes_; }  // of running statistics

 private:
  struct Watched {
    double bytes = 0;
    double ready = 0;                                    // monotonic_seconds()
    std::shared_ptr<torch::autograd::Node> accumulator;  // a parameter does not keep it alive
  };
  struct Measured {
    std::vector<double> forward, backward, update;  // of each iteration
    std::vector<std::vector<double>> ready;         // of each parameter: shares of backward
  };

  void watch(const PlayerState& state) {
    std::vector<Watched>& all = parameters_[state.player->name];
    for (const std::string& part : state.player->parts) {
      for (const auto& [name, parameter] : state.active) {
        if (!part.empty() && !starts_with(name, part + ".")) continue;
        at::Tensor leaf = parameter;
        leaf.requires_grad_(true);
        all.push_back(
            {static_cast<double>(leaf.nbytes()), 0, torch::autograd::impl::grad_accumulator(leaf)});
      }
    }
    std::reverse(all.begin(), all.end());
    for (Watched& each : all) {
      each.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [&each](const auto& outputs, const auto& /*inputs*/) {
            each.ready = monotonic_seconds();
            return outputs;
          }));
    }
  }

  void end_phase(double now) {
    if (measured_.count(phase_) == 0) order_.push_back(phase_);
    Measured& measured = measured_[phase_];
    const double backward = update_ - backward_;
    measured.forward.push_back(backward_ - began_);
    measured.backward.push_back(backward);
    measured.update.push_back(now - update_);
    const std::vector<Watched>& parameters = parameters_.at(player_of_.at(phase_));
    measured.ready.resize(parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const double share = (parameters[i].ready - backward_) / backward;
      measured.ready[i].push_back(std::clamp(share, 0.0, 1.0));
    }
  }

  std::map<std::string, std::vector<Watched>> parameters_;  // by player
  std::map<std::string, std::string> player_of_;            // by phase
  std::map<std::string, Measured> measured_;                // by phase
  std::vector<std::string> order_;                          // of phases
  double shared_bytes_ = 0;
  std::string phase_;  // that runs now
  double began_ = 0, backward_ = 0, update_ = 0;
};

// Median seconds of an all-reduce of so many bytes.
double all_reduce_time(Group& group, int64_t bytes, int64_t times) {
  at::Tensor numbers = torch::zeros({bytes / 4});
  std::vector<double> seconds;
  for (int64_t i = 0; i < times + 2; ++i) {
    group.barrier();
    const double start = monotonic_seconds();
    group.sum_(numbers);
    if (i >= 2) seconds.push_back(monotonic_seconds() - start);
  }
  return median(seconds);
}

// Returns what one rank computes in an iteration, and when in a backward pass each gradient is
// there. Every phase runs in every iteration; the times are medians. It computes in the calling
// process with its threads, as a rank without peers. Name and description are left empty.
Workload profile_workload(const Config& config, const RecipeRow& recipe, int64_t steps) {
  constexpr double kRequests = 64;  // bytes that go with the running statistics
  const auto dist = config.read<DistOptions>();
  GradientClock clock;
  StepBench bench{config, recipe, /*warm=*/1, steps, /*all_phases=*/true};
  bench.doing = [&](const std::string& phase, const std::string& part) { clock.next(phase, part); };
  bench.built = [&](const TrainingStep& step) { clock.watch(step); };
  const StepTimes times = time_steps(bench, Rendezvous{});
  Workload work;
  work.batch = config.get("train.batch");
  work.bucket_mb = dist.bucket_mb;
  work.first_bucket_mb = dist.first_bucket_mb;
  work.wire = dist.compress == Compress::kNone ? 1 : 0.5;
  work.rest = median(times.rest);
  work.shared_bytes =
      kRequests + (dist.broadcast_buffers == BufferSync::kOff ? 0 : clock.shared_bytes());
  work.phases = clock.phases();
  for (PhaseWork& phase : work.phases) phase.interval = times.phases.at(phase.name).interval;
  return work;
}

// Returns bandwidth and latency with which all_reduce_seconds() gives the times that the ranks
// measure now through gloo, of a few bytes and of many. All ranks call it together.
Link fit_link(const Rendezvous& rendezvous) {
  constexpr int64_t kFew = 1 << 10, kMany = 16 << 20;
  constexpr double kTimeout = 60;  // seconds
  const auto group = Group::join(rendezvous, BackendKind::kGloo, at::kCPU, kTimeout);
  const double few = all_reduce_time(*group, kFew, 50);
  const double many = all_reduce_time(*group, kMany, 6);
  // A ring: 2 (n - 1) latencies, and 2 (n - 1) / n of the bytes.
  const auto n = static_cast<double>(group->world());
  group->barrier();
  const double transfer = std::max(many - few, 1e-9);
  return {2 * (n - 1) / n * static_cast<double>(kMany - kFew) / transfer, few / (2 * (n - 1))};
}

// Buckets of a network are what the model has.
Config config_of_rank(Config config) {
  config.set("dist.ddp_mode", "dynamic", "bench");
  config.set("dist.ddp_scope", "net", "bench");
  return config;
}

// What each of so many ranks computes when all of them compute at once and none sends anything.
// Ranks that share processors slow each other down, which is no matter of communication.
std::vector<Workload> profiles(FindRecipe find_recipe,
                               const Config& given,
                               int64_t ranks,
                               int64_t steps) {
  std::vector<Workload> all;
  for (const Json& answer : in_ranks(ranks, [&](const Rendezvous&) {
         const Config config = config_of_rank(given);
         keep_memory(config);
         return message_of(
             profile_workload(config, find_recipe(text_of(config.get("recipe"))), steps));
       })) {
    all.push_back(message_from<Workload>(answer));
  }
  return all;
}

// Seconds of a mean iteration of ranks that train together.
double measured_step(FindRecipe find_recipe, const BenchWorld& world, int64_t steps) {
  const Config config = config_of_rank(world.config);
  const RecipeRow& recipe = find_recipe(text_of(config.get("recipe")));
  double sum = 0;
  for (const StepTimes& rank :
       time_ranks(world.ranks, {config, recipe, /*warm=*/1, steps, /*all_phases=*/true})) {
    sum += rank.mean_iteration();
  }
  return sum / static_cast<double>(world.ranks);
}

// Prints what the model says of a world of local ranks and what they take, and returns it.
Json check_world(FindRecipe find_recipe,
                 const BenchNet& net,
                 const BenchWorld& world,
                 int64_t steps) {
  const std::vector<Workload> ranks =
      profiles(find_recipe, net.worlds.front().config, world.ranks, steps);
  double compute = 0;  // seconds of a rank beside the others
  for (const Workload& rank : ranks) compute += rank.compute() / static_cast<double>(ranks.size());
  Workload work = ranks.front();
  scale_compute(work, compute / work.compute());
  Link link;
  if (world.ranks > 1) {
    link = message_from<Link>(in_ranks(world.ranks, [](const Rendezvous& meeting) {
                                return message_of(fit_link(meeting));
                              }).front());
  }
  // gloo sends with a thread of its own: where ranks fill the processors, it takes its time from
  // computing, and nothing hides.
  const bool hides = usable_cores() >= 2 * world.ranks;
  const double predicted = simulate_step(work,
                                         bucket_sizes(work, work.bucket_mb),
                                         world.ranks,
                                         {link, link, world.ranks},
                                         hides ? Overlap::kBackward : Overlap::kNone)
                               .seconds;
  const double measured = measured_step(find_recipe, world, steps);
  const bool alone = world.ranks == 1;
  fmt::print(
      "  {:>5} {:>12} {:>22} {:>9} {:>12} {:>12} {:>8.2f}\n",
      world.ranks,
      time_text(compute),
      alone ? "-" : fmt::format("{:.2f} GB/s, {:.0f} us", link.bandwidth / 1e9, link.latency * 1e6),
      alone   ? "-"
      : hides ? "yes"
              : "no",
      time_text(predicted),
      time_text(measured),
      predicted / measured);
  std::fflush(stdout);
  return {{"ranks", world.ranks},
          {"link", message_of(link)},
          {"compute", compute},
          {"hides", hides},
          {"predicted", predicted},
          {"measured", measured},
          {"ratio", predicted / measured}};
}

Json check_worlds(FindRecipe find_recipe, const BenchNet& net, int64_t steps) {
  fmt::print("\nthe model beside local ranks of one thread on {} processors, load {:.1f}\n",
             usable_cores(),
             load_average());
  fmt::print(
      "  ranks    computing   link, by all-reduces   overlap    predicted     measured    ratio\n");
  Json rows = Json::array();
  for (const BenchWorld& world : net.worlds)
    rows.push_back(check_world(find_recipe, net, world, steps));
  return rows;
}

}  // namespace

int bench_ddp_plan(const BenchDdpRequest& request, FindRecipe find_recipe) {
  Json result = {
      {"bench", "ddp"}, {"plan", report_cluster(*request.plan)}, {"nets", Json::array()}};
  if (request.plan->given.empty())
    fmt::print(
        "computing: as one thread of this CPU does it; --compute-ms says what a GPU takes\n");
  for (const BenchNet& net : request.nets) {
    Workload work = profiles(find_recipe, net.worlds.front().config, 1, request.steps).front();
    work.name = net.name;
    work.about = net.about;
    Json& row = result["nets"].emplace_back(report_plan(work, *request.plan));
    if (net.worlds.size() > 1) {
      row["check"] = check_worlds(find_recipe, net, request.steps);
    } else {
      fmt::print("not compared with local ranks: --check does it\n");
    }
  }
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

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
