// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <map>

#include "bench_common.h"
#include "bench_device.h"
#include "bench_floor.h"
#include "bench_numbers.h"
#include "bench_peer.h"
#include "bench_profile.h"
#include "recipes.h"
#include "resolve.h"
#include "train/step_bench.h"
#include "trainer_verbs.h"
#include "util/sample.h"

namespace gantrain {

namespace {

struct KernelUse {
  double seconds = 0, faults = 0;
};

KernelUse kernel_use() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {static_cast<double>(usage.ru_stime.tv_sec) +
              1e-6 * static_cast<double>(usage.ru_stime.tv_usec),
          static_cast<double>(usage.ru_minflt)};
}

StepBench bench_of(const Config& config, const BenchStepRequest& request) {
  return {.config = config,
          .recipe = find_recipe(text_of(config.get("recipe"))),
          .warm = request.warm,
          .steps = request.steps,
          .all_phases = true};
}

// What summary_of() returns.
Json profile(const BenchStepNet& net, const BenchStepRequest& request) {
  return in_child(request.threads, [&](const Rendezvous& rendezvous) {
    const Config config = config_from_json(net.config);
    keep_memory(config);
    StepBench bench = bench_of(config, request);
    OperatorRecorder recorder;
    StepProfile all;
    KernelUse before;
    bool running = false;
    bench.doing = [&](const std::string& phase, const std::string& part) {
      recorder.enter(phase.empty() && !part.empty() ? "rest" : phase);
      if (!running) before = kernel_use();
      running = !part.empty();
      if (running) return;
      const KernelUse after = kernel_use();
      all.system += after.seconds - before.seconds;
      all.faults += after.faults - before.faults;
    };
    all.times = time_steps(bench, rendezvous);
    all.operators = recorder.times();
    all.steps = static_cast<double>(request.steps);
    return summary_of(all);
  });
}

// What floor_of() returns for the convolutions and products of one iteration.
Json measure_floor(const BenchStepNet& net, const BenchStepRequest& request) {
  return in_child(request.threads, [&](const Rendezvous& rendezvous) {
    const Config config = config_from_json(net.config);
    keep_memory(config);
    StepBench bench = bench_of(config, request);
    bench.steps = 1;
    std::vector<ProductCalls> products;
    {
      OperatorRecorder recorder;
      bench.doing = [&](const std::string& phase, const std::string& part) {
        recorder.enter(phase.empty() && !part.empty() ? "rest" : phase);
      };
      time_steps(bench, rendezvous);
      products = recorder.products();
    }
    return floor_of(products);
  });
}

// {"phases": {name: [seconds]}, "peak_bytes": n}, as the peers answer, and on a GPU "iterations":
// [mean seconds]; "rest" is what is outside phases.
Json measure_ours(const BenchStepNet& net, const BenchStepRequest& request, bool ref) {
  Config config = config_from_json(net.config);
  if (ref) config.set("train.kernels", "ref", "bench");
  return in_child(request.threads, [&](const Rendezvous& rendezvous) {
    const BenchDevice where(request.cuda);
    if (!request.cuda) keep_memory(config);
    StepBench bench = bench_of(config, request);
    bench.device = where.device();
    const StepTimes times = time_steps(bench, rendezvous);
    Json answer = {{"phases", {{"rest", times.rest}}},
                   {"peak_bytes", times.peak_bytes},
                   {"batch", times.batch},
                   {"micro_batch", times.micro_batch}};
    if (request.cuda) {
      answer["iterations"] = times.unwatched;
      answer["reserved_bytes"] = times.reserved_bytes;
      answer["gpu"] = where.name();
    }
    for (const auto& [name, phase] : times.phases) {
      answer["phases"][name] = phase.seconds;
      answer["intervals"][name] = phase.interval;
    }
    return answer;
  });
}

using Intervals = std::map<std::string, double>;  // of phases; 1 for all that it does not name

// All measurements of one contender.
struct Measured {
  std::string name;
  std::function<Json()> measure;
  std::vector<double> iterations;  // mean seconds, one for each measurement
  std::map<std::string, std::vector<double>> phases;
  double peak_bytes = 0;
  Json facts = Json::object();  // what else was answered: batch, memory kept, which GPU

  void add(const Json& answer, const Intervals& intervals) {
    double sum = 0;
    for (const auto& [phase, list] : answer.at("phases").items()) {
      const auto seconds = list.get<std::vector<double>>();
      const auto interval = intervals.find(phase);
      sum += median(seconds) / (interval == intervals.end() ? 1 : interval->second);
      phases[phase].insert(phases[phase].end(), seconds.begin(), seconds.end());
    }
    if (answer.contains("iterations")) {
      for (const Json& seconds : answer.at("iterations")) iterations.push_back(seconds);
    } else {
      iterations.push_back(sum);
    }
    peak_bytes = std::max(peak_bytes, answer.at("peak_bytes").get<double>());
    for (const char* fact : {"batch", "micro_batch", "reserved_bytes", "gpu", "operators"}) {
      if (answer.contains(fact)) facts[fact] = answer.at(fact);
    }
  }

  Json to_json(const Measured& ours) const {
    Json row = {{"name", name}, {"peak_bytes", peak_bytes}};
    row.update(facts);
    row.update(spread_of(iterations));
    if (facts.contains("batch"))
      row["sec_per_kimg"] = median(iterations) * 1000 / facts.at("batch").get<double>();
    for (const auto& [phase, seconds] : phases) row["phases"][phase] = spread_of(seconds);
    if (this != &ours) row["ours"] = ratio_of(quotients(ours.iterations, iterations));
    return row;
  }
};

void print_head(const Intervals& intervals) {
  fmt::print("  {:<24} {:>10} {:>17} {:>24} {:>9}",
             "",
             "iteration",
             "quartiles",
             "ours / this",
             "peak MB");
  for (const auto& [phase, interval] : intervals) {
    fmt::print(" {:>9}", interval == 1 ? phase : fmt::format("{}/{}", phase, interval));
  }
  fmt::print("\n");
}

void print_row(const Json& row, const Intervals& intervals) {
  fmt::print("  {:<24} {:>8.3f} s {:>7.3f} .. {:<6.3f} {:>24} {:>9.0f}",
             row.at("name").get<std::string>(),
             row.at("median").get<double>(),
             row.at("quartiles")[0].get<double>(),
             row.at("quartiles")[1].get<double>(),
             row.contains("ours") ? ratio_text(row.at("ours")) : "",
             row.at("peak_bytes").get<double>() / 1e6);
  for (const auto& [phase, interval] : intervals) {
    const Json& phases = row.at("phases");
    if (phases.contains(phase)) {
      fmt::print(" {:>9.3f}", phases.at(phase).at("median").get<double>());
    } else {
      fmt::print(" {:>9}", "");
    }
  }
  fmt::print("\n");
}

// What only GPUs have, of our own row.
void print_gpu(const Json& row) {
  fmt::print("  {:.2f} s/kimg, {:.0f} pictures/s, batch {} by {}, memory kept {:.0f} MB, on {}\n",
             row.at("sec_per_kimg").get<double>(),
             1000 / row.at("sec_per_kimg").get<double>(),
             row.at("batch").get<int64_t>(),
             row.at("micro_batch").get<int64_t>(),
             row.at("reserved_bytes").get<double>() / 1e6,
             row.at("gpu").get<std::string>());
}

// Adds a "floor" to the row, and what our time is of it.
void add_floor(Json& row, const Json& floor, const Measured& ours, const Intervals& intervals) {
  double sum = 0;
  for (const auto& [phase, seconds] : floor.at("phases").items()) {
    const auto interval = intervals.find(phase);
    sum += seconds.get<double>() / (interval == intervals.end() ? 1 : interval->second);
  }
  row["floor"] = floor;
  row["floor"]["seconds"] = sum;
  std::vector<double> ratios;
  for (const double seconds : ours.iterations) ratios.push_back(seconds / sum);
  row["floor"]["ours"] = ratio_of(ratios);
}

void print_floor(const Json& floor, const Intervals& intervals) {
  fmt::print("  {:<24} {:>8.3f} s {:>17} {:>24} {:>9}",
             "floor: products alone",
             floor.at("seconds").get<double>(),
             "",
             ratio_text(floor.at("ours")),
             "");
  for (const auto& [phase, interval] : intervals)
    fmt::print(" {:>9.3f}", floor.at("phases").value(phase, 0.0));
  fmt::print("\n");
}

std::vector<Measured> contenders(const BenchStepNet& net,
                                 const BenchStepRequest& request,
                                 bool peers) {
  std::vector<Measured> all;
  all.push_back({"gantrain", [&] { return measure_ours(net, request, false); }, {}, {}});
  if (request.ref) {
    all.push_back(
        {"gantrain, kernels=ref", [&] { return measure_ours(net, request, true); }, {}, {}});
  }
  if (!peers) return all;
  for (const BenchPeer& peer : net.peers) {
    std::vector<std::string> arguments = peer.arguments;
    for (const auto& [flag, value] : std::map<std::string, int64_t>{{"--threads", request.threads},
                                                                    {"--warm", request.warm},
                                                                    {"--steps", request.steps}}) {
      arguments.push_back(flag);
      arguments.push_back(std::to_string(value));
    }
    const Peer program{request.python, request.scripts + "/" + peer.script, request.unset};
    all.push_back(
        {peer.name, [program, arguments] { return run_peer(program, arguments); }, {}, {}});
  }
  return all;
}

Json compare(const BenchStepNet& net, const BenchStepRequest& request, bool peers) {
  Json row = {{"name", net.name}, {"rows", Json::array()}};
  const Json floor = request.floor ? measure_floor(net, request) : Json();
  std::vector<Measured> all = contenders(net, request, peers);
  Intervals intervals;
  std::vector<std::function<void()>> measurements;
  for (Measured& one : all) {
    measurements.emplace_back([&] {
      const Json answer = one.measure();
      if (answer.contains("intervals")) intervals = answer.at("intervals").get<Intervals>();
      one.add(answer, intervals);
    });
  }
  in_turns(request.pairs, measurements);
  print_head(intervals);
  for (const Measured& one : all) {
    row["rows"].push_back(one.to_json(all.front()));
    print_row(row["rows"].back(), intervals);
  }
  if (request.cuda) print_gpu(row["rows"].front());
  row["intervals"] = intervals;
  if (!request.floor) return row;
  add_floor(row, floor, all.front(), intervals);
  print_floor(row["floor"], intervals);
  return row;
}

// Why the peers cannot be run, or "".
std::string why_no_peers(const BenchStepRequest& request) {
  if (request.python.empty()) return "--python is empty";
  return why_not({request.python, request.scripts + "/dcgan.py", {}}, "2.11");
}

}  // namespace

int bench_step(const BenchStepRequest& request) {
  Json result = {{"bench", "step"},
                 {"threads", request.threads},
                 {"load", {load_average()}},
                 {"nets", Json::array()}};
  const std::string reason = request.profile ? "" : why_no_peers(request);
  if (request.cuda) {
    fmt::print(
        "iteration: the mean of rows of iterations as in training, in which nothing waits; phases: "
        "each to its end on the GPU,\nin iterations that have all of them; memory: of tensors\n");
  } else if (!request.profile) {
    fmt::print(
        "iteration: phases divided by their intervals, and what is outside phases; floor: the "
        "convolutions and matrix\nproducts of the step, each alone in the best layout found. {} "
        "threads, load {:.1f}\n",
        request.threads,
        load_average());
  }
  for (const BenchStepNet& net : request.nets) {
    fmt::print("\n{}\n", net.about);
    std::fflush(stdout);
    if (request.profile) {
      result["nets"].push_back({{"name", net.name}, {"profile", profile(net, request)}});
      print_profile(result["nets"].back()["profile"]);
    } else {
      result["nets"].push_back(compare(net, request, reason.empty()));
    }
    std::fflush(stdout);
  }
  if (!reason.empty()) {
    fmt::print("\nnot compared with PyTorch: {}\n", reason);
    result["peer_skipped"] = reason;
  }
  result["load"].push_back(load_average());
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace gantrain
