// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <algorithm>
#include <map>

#include "bench/common.h"
#include "bench/record.h"
#include "bench/requests.h"
#include "bench/worlds.h"
#include "config/value.h"
#include "train/step/step_bench.h"
#include "util/sample.h"

namespace gantrain {

namespace {

// What the time of iterations went to: sums over `steps` iterations in each of which all phases
// ran.
struct StepProfile {
  StepTimes times;
  std::vector<OperatorTime> operators;
  double steps = 1;
  double system = 0;  // seconds that the kernel spent for the process, in all these iterations
  double faults = 0;  // page faults, in all these iterations
};

constexpr const char* kRest = "rest";  // the phase of what is outside phases

struct Row {
  double seconds = 0, forward = 0, backward = 0, calls = 0;
  std::map<std::string, double> phases;
  std::map<std::string, Row> shapes;

  void add(const OperatorTime& time, double weight, double steps) {
    const double share = time.seconds * weight / steps;
    seconds += share;
    (time.backward ? backward : forward) += share;
    phases[time.phase] += share;
    calls += time.calls / steps;
  }

  Json to_json(const std::string& name) const {
    return {{"name", name},
            {"seconds", seconds},
            {"forward", forward},
            {"backward", backward},
            {"calls", calls},
            {"phases", phases}};
  }
};

std::vector<std::pair<std::string, const Row*>> longest_first(
    const std::map<std::string, Row>& rows) {
  std::vector<std::pair<std::string, const Row*>> all;
  for (const auto& [name, row] : rows) all.emplace_back(name, &row);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second->seconds > b.second->seconds;
  });
  return all;
}

Json json_of(const std::string& name, const Row& row) {
  constexpr size_t kShapes = 8;
  Json json = row.to_json(name);
  json["shapes"] = Json::array();
  for (const auto& [shape, part] : longest_first(row.shapes)) {
    if (json["shapes"].size() < kShapes) json["shapes"].push_back(part->to_json(shape));
  }
  return json;
}

// Seconds of a mean iteration, by phase.
std::map<std::string, double> phase_seconds(const StepTimes& times) {
  const auto mean = [](const std::vector<double>& seconds) {
    double sum = 0;
    for (const double s : seconds) sum += s;
    return sum / static_cast<double>(seconds.size());
  };
  std::map<std::string, double> all = {{kRest, mean(times.rest)}};
  for (const auto& [name, phase] : times.phases)
    all[name] = mean(phase.seconds) / static_cast<double>(phase.interval);
  return all;
}

void print_operator(const Json& row, double total, const Json& phases, const std::string& name) {
  fmt::print("  {:<52} {:>8.3f} {:>6.1f} % {:>7.0f} {:>8.3f} {:>8.3f}",
             name,
             row.at("seconds").get<double>(),
             100 * row.at("seconds").get<double>() / total,
             row.at("calls").get<double>(),
             row.at("forward").get<double>(),
             row.at("backward").get<double>());
  for (const auto& [phase, seconds] : phases.items())
    fmt::print(" {:>8.3f}", row.at("phases").value(phase, 0.0));
  fmt::print("\n");
}

// Sums up by operator, the longest first. Seconds are of a mean iteration, to which a phase adds
// its time divided by its interval; calls are of an iteration with all phases. The last row is what
// is spent outside operators. Each row has "shapes", its longest few.
Json summary_of(const StepProfile& profile) {
  const std::map<std::string, double> phases = phase_seconds(profile.times);
  std::map<std::string, Row> rows;
  Row outside;
  for (const auto& [phase, seconds] : phases) outside.phases[phase] = seconds;
  for (const OperatorTime& time : profile.operators) {
    const auto phase = profile.times.phases.find(time.phase);
    const double weight =
        phase == profile.times.phases.end() ? 1 : 1.0 / static_cast<double>(phase->second.interval);
    Row& row = rows[time.name];
    row.add(time, weight, profile.steps);
    row.shapes[time.shapes].add(time, weight, profile.steps);
    outside.phases[time.phase] -= time.seconds * weight / profile.steps;
  }
  Json summary = {{"phases", phases},
                  {"system", profile.system / profile.steps},
                  {"faults", profile.faults / profile.steps},
                  {"peak_bytes", profile.times.peak_bytes}};
  double total = 0;
  for (const auto& [phase, seconds] : phases) total += seconds;
  summary["seconds"] = total;
  for (const auto& [name, row] : longest_first(rows))
    summary["operators"].push_back(json_of(name, *row));
  for (const auto& [phase, seconds] : outside.phases) outside.seconds += seconds;
  summary["operators"].push_back(json_of("outside operators", outside));
  return summary;
}

// Prints what summary_of() returns as a table.
void print_profile(const Json& summary) {
  constexpr size_t kRows = 40, kWithShapes = 16;
  const double total = summary.at("seconds");
  const Json& phases = summary.at("phases");
  fmt::print(
      "self seconds of a mean iteration; calls of an iteration with all phases; of operators "
      "within "
      "backward passes: \"backward\"; cl: channels-last, ~: other strides\n"
      "in an iteration with all phases the kernel takes {:.2f} s, and there are {:.0f} page "
      "faults; "
      "peak memory {:.0f} MB\n"
      "  {:<52} {:>8} {:>8} {:>7} {:>8} {:>8}",
      summary.at("system").get<double>(),
      summary.at("faults").get<double>(),
      summary.at("peak_bytes").get<double>() / 1e6,
      "operator",
      "self",
      "share",
      "calls",
      "forward",
      "backward");
  for (const auto& [phase, seconds] : phases.items()) fmt::print(" {:>8}", phase);
  fmt::print("\n");
  const Json& rows = summary.at("operators");
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool last = i + 1 == rows.size();
    if (!last && (i >= kRows || rows[i].at("seconds").get<double>() < 5e-4 * total)) continue;
    print_operator(rows[i], total, phases, rows[i].at("name").get<std::string>().substr(0, 52));
    if (i >= kWithShapes) continue;
    for (const Json& shape : rows[i].at("shapes")) {
      if (shape.at("seconds").get<double>() > 0.002 * total)
        print_operator(
            shape, total, phases, "    " + shape.at("name").get<std::string>().substr(0, 48));
    }
  }
  print_operator(
      {{"seconds", total}, {"calls", 0}, {"forward", 0}, {"backward", 0}, {"phases", phases}},
      total,
      phases,
      "all");
}

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

// A pair of networks, of which an iteration is timed in children of this process.
struct TimedNet {
  const BenchStepNet& net;
  const BenchStepRequest& request;
  const RecipeRow& recipe;

  StepBench bench() const {
    return {net.config, recipe, request.warm, request.steps, /*all_phases=*/true};
  }
};

// What summary_of() returns.
Json profile(const TimedNet& timed) {
  return in_child(timed.request.threads, [&](const Rendezvous& rendezvous) {
    keep_memory(timed.net.config);
    StepBench bench = timed.bench();
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
    all.steps = static_cast<double>(bench.steps);
    return summary_of(all);
  });
}

// What floor_of() returns for the convolutions and products of one iteration.
Json measure_floor(const TimedNet& timed) {
  return in_child(timed.request.threads, [&](const Rendezvous& rendezvous) {
    keep_memory(timed.net.config);
    StepBench bench = timed.bench();
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
Json measure_ours(const TimedNet& timed, bool ref) {
  const bool cuda = timed.request.cuda;
  BenchStepNet net = timed.net;
  if (ref) net.config.set("train.kernels", "ref", "bench");
  return in_child(timed.request.threads, [&](const Rendezvous& rendezvous) {
    const BenchDevice where(cuda);
    if (!cuda) keep_memory(net.config);
    StepBench bench = TimedNet{net, timed.request, timed.recipe}.bench();
    bench.device = where.device();
    const StepTimes times = time_steps(bench, rendezvous);
    Json answer = {{"phases", {{"rest", times.rest}}},
                   {"peak_bytes", times.peak_bytes},
                   {"batch", times.batch},
                   {"micro_batch", times.micro_batch}};
    if (cuda) {
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

double interval_of(const std::string& phase, const Intervals& intervals) {
  const auto at = intervals.find(phase);
  return at == intervals.end() ? 1 : at->second;
}

// All measurements of one contender.
struct Contender {
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
      sum += median(seconds) / interval_of(phase, intervals);
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

  Json to_json(const Contender& ours) const {
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
  fmt::print(
      "                            iteration         quartiles              ours / this   peak MB");
  for (const auto& [phase, interval] : intervals) {
    fmt::print(" {:>9}", interval == 1 ? phase : fmt::format("{}/{}", phase, interval));
  }
  fmt::print("\n");
}

void print_row(const Json& row, const Intervals& intervals) {
  fmt::print("  {:<24} {:>8.3f} s {:>7.3f} .. {:<6.3f} {:>24} {:>9.0f}",
             row.at("name").get<std::string>(),
             median_of(row),
             row.at("quartiles")[0].get<double>(),
             row.at("quartiles")[1].get<double>(),
             row.contains("ours") ? ratio_text(row.at("ours")) : "",
             row.at("peak_bytes").get<double>() / 1e6);
  for (const auto& [phase, interval] : intervals) {
    const Json& phases = row.at("phases");
    if (phases.contains(phase)) {
      fmt::print(" {:>9.3f}", median_of(phases.at(phase)));
    } else {
      fmt::print("          ");
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
void add_floor(Json& row, const Json& floor, const Contender& ours, const Intervals& intervals) {
  double sum = 0;
  for (const auto& [phase, seconds] : floor.at("phases").items()) {
    sum += seconds.get<double>() / interval_of(phase, intervals);
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

std::vector<Contender> contenders(const TimedNet& timed, bool peers) {
  const BenchStepRequest& request = timed.request;
  std::vector<Contender> all;
  all.push_back({"gantrain", [&] { return measure_ours(timed, false); }, {}, {}});
  if (request.ref)
    all.push_back({"gantrain, kernels=ref", [&] { return measure_ours(timed, true); }, {}, {}});
  if (!peers) return all;
  for (const BenchPeer& peer : timed.net.peers) {
    PeerCall call = peer.call;
    append_flags(
        call.arguments,
        {{"--threads", request.threads}, {"--warm", request.warm}, {"--steps", request.steps}});
    all.push_back({peer.name, [&request, call] { return run_peer(request.peers, call); }, {}, {}});
  }
  return all;
}

// A GPU has no floor: how fast a product alone would be there is not known.
bool floor_wanted(const BenchStepRequest& request) { return !request.no_floor && !request.cuda; }

Json compare_contenders(const TimedNet& timed, bool peers) {
  const BenchStepRequest& request = timed.request;
  Json row = {{"rows", Json::array()}};
  const Json floor = floor_wanted(request) ? measure_floor(timed) : Json();
  std::vector<Contender> all = contenders(timed, peers);
  Intervals intervals;
  std::vector<std::function<void()>> measurements;
  for (Contender& one : all) {
    measurements.emplace_back([&] {
      const Json answer = one.measure();
      if (answer.contains("intervals")) intervals = answer.at("intervals").get<Intervals>();
      one.add(answer, intervals);
    });
  }
  in_turns(request.pairs, measurements);
  print_head(intervals);
  for (const Contender& one : all) {
    row["rows"].push_back(one.to_json(all.front()));
    print_row(row["rows"].back(), intervals);
  }
  if (request.cuda) print_gpu(row["rows"].front());
  row["intervals"] = intervals;
  if (!floor_wanted(request)) return row;
  add_floor(row, floor, all.front(), intervals);
  print_floor(row["floor"], intervals);
  return row;
}

// Why the peers cannot be run, or "".
std::string why_no_peers(const BenchStepRequest& request) {
  if (request.peers.python.empty()) return "--python is empty";
  return why_not(request.peers, request.any_script, "2.11");
}

}  // namespace

int bench_step(const BenchStepRequest& request, FindRecipe find_recipe) {
  Json result = {{"bench", "step"},
                 {"threads", request.threads},
                 {"load", {load_average()}},
                 {"nets", Json::array()}};
  const bool alone = request.profile || request.count;
  const std::string reason = alone ? "" : why_no_peers(request);
  if (request.cuda) {
    fmt::print(
        "iteration: the mean of rows of iterations as in training, in which nothing waits; phases: "
        "each to its end on the GPU,\nin iterations that have all of them; memory: of tensors\n");
  } else if (!alone) {
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
    const TimedNet timed{net, request, find_recipe(text_of(net.config.get("recipe")))};
    Json& row = result["nets"].emplace_back(Json{{"name", net.name}});
    if (request.profile) {
      row["profile"] = profile(timed);
      print_profile(row["profile"]);
    } else if (request.count) {
      row["count"] = in_child(request.threads, [&](const Rendezvous& rendezvous) {
        return count_step(net.config, timed.recipe, rendezvous);
      });
      print_count(row["count"]);
    } else {
      row.update(compare_contenders(timed, reason.empty()));
    }
    std::fflush(stdout);
  }
  return finish_bench(result, {request.json, "PyTorch", reason});
}

}  // namespace gantrain
