// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "bench/worlds.h"
#include "config/schema.h"
#include "core/forward_precision.h"
#include "core/torch.h"
#include "data/options.h"
#include "ops/counting/gpu_count.h"
#include "ops/kernels.h"
#include "train/step/step_bench.h"
#include "train/step/training_step.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr const char* kOutside = "rest";  // the phase of what is outside phases

// Work of a mean iteration.
struct MeanWork {
  GpuWork graphs, eager;
  double replays = 0;

  GpuWork all() const {
    GpuWork sum = graphs;
    sum.add(eager);
    return sum;
  }
  Json to_json() const {
    const GpuWork sum = all();
    return {{"calls", sum.calls},
            {"kernels", sum.kernels},
            {"eager", eager.kernels},
            {"replays", replays},
            {"read", sum.read},
            {"written", sum.written},
            {"floor", sum.floor}};
  }
};

GpuWork divided(GpuWork work, double by) {
  for (double* number : {&work.calls, &work.kernels, &work.read, &work.written, &work.floor})
    *number /= by;
  return work;
}

Json sums_of(const std::map<std::string, CountedPhase>& phases, double iterations) {
  MeanWork iteration;
  std::map<std::string, MeanWork> operators;
  Json json = {{"phases", Json::object()}, {"operators", Json::array()}};
  for (const auto& [name, counted] : phases) {
    MeanWork phase;
    phase.replays = counted.replays / iterations;
    for (const auto& [which, work] : counted.graphs) {
      phase.graphs.add(divided(work, iterations));
      operators[which].graphs.add(divided(work, iterations));
    }
    for (const auto& [which, work] : counted.eager) {
      phase.eager.add(divided(work, iterations));
      operators[which].eager.add(divided(work, iterations));
    }
    iteration.graphs.add(phase.graphs);
    iteration.eager.add(phase.eager);
    iteration.replays += phase.replays;
    json["phases"][name] = phase.to_json();
  }
  json["iteration"] = iteration.to_json();
  std::vector<std::pair<std::string, MeanWork>> rows(operators.begin(), operators.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.all().bytes() > b.second.all().bytes();
  });
  for (const auto& [name, work] : rows) {
    json["operators"].push_back(work.to_json());
    json["operators"].back()["name"] = name;
  }
  return json;
}

// Autocast has no rules for the meta device.
void check_countable(const Config& config) {
  const auto precision = config.read<PrecisionOptions>();
  if (compute_type(precision, /*cuda=*/true) != ComputeType::kFloat32 &&
      precision.mode == PrecisionMode::kAutocast) {
    fail(Exit::kUsage,
         "--count: what autocast lowers is not known without a GPU; precision.mode=blocks and "
         "float32 can be counted");
  }
}

}  // namespace

Json count_step(const Config& config, const RecipeRow& recipe, const Rendezvous& rendezvous) {
  constexpr double kTimeout = 300;  // seconds
  check_countable(config);
  const auto data = config.read<DataOptions>();
  const WithKernels kernels(config.read<TrainOptions>().kernels);
  const auto group = Group::join(rendezvous, BackendKind::kGloo, at::kCPU, kTimeout);
  const int64_t channels = data.channels.value_or(3);
  GpuCount gpu;
  bool counts = false;
  const auto doing = [&](const std::string& what) {
    if (counts) gpu.enter(what == "shared statistics" ? kOutside : what.substr(0, what.find(' ')));
  };
  TrainingStep step({config, recipe, group, at::kMeta, data.resolution, channels, {}, doing});
  const int64_t images_seen = enter_last_stage(step);
  const Tensor real = torch::empty(
      {step.plan().batch, channels, data.resolution.height, data.resolution.width}, at::kMeta);
  const int64_t round = round_of(step.recipe().phases());
  const int64_t warm = step.records_graphs() ? kRunsUntilReplay * round : round;
  for (int64_t i = 0; i < warm + round; ++i) {
    counts = i >= warm;
    gpu.enter(counts ? kOutside : "");
    step.run({real, {}}, {i, images_seen});
  }
  Json json = sums_of(gpu.phases(), static_cast<double>(round));
  for (const Phase& phase : step.recipe().phases())
    json["phases"][phase.name]["interval"] = phase.cadence.interval;
  json["batch"] = step.plan().batch;
  json["micro_batch"] = step.plan().micro_batch;
  json["graphs"] = step.records_graphs();
  return json;
}

namespace {

void print_work(const std::string& name, const Json& work, double share) {
  const double floor = work.at("floor"),
               bytes = work.at("read").get<double>() + work.at("written").get<double>();
  fmt::print("  {:<40} {:>9.1f} {:>9.1f} {:>9.3f} {:>9.3f} {:>9.3f} {:>7} {:>6.1f} %\n",
             name,
             work.at("kernels").get<double>(),
             work.at("eager").get<double>(),
             work.at("read").get<double>() * 1e-9,
             work.at("written").get<double>() * 1e-9,
             floor * 1e-9,
             floor > 0 ? fmt::format("{:.2f}", bytes / floor) : "",
             100 * bytes / share);
}

double bytes_in(const Json& work) {
  return work.at("read").get<double>() + work.at("written").get<double>();
}

}  // namespace

void print_count(const Json& count) {
  constexpr size_t kRows = 24;
  const Json& iteration = count.at("iteration");
  const double bytes = bytes_in(iteration);
  fmt::print(
      "what a GPU is given in a mean iteration, batch {} by {}{}; GB; floor: the tensors of "
      "convolutions and matrix\nproducts, each read or written once by each of them\n"
      "  {:<40} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8}\n",
      count.at("batch").get<int64_t>(),
      count.at("micro_batch").get<int64_t>(),
      count.at("graphs").get<bool>() ? "" : ", without graphs",
      "phase",
      "kernels",
      "no graph",
      "read",
      "written",
      "floor",
      "x floor",
      "bytes");
  for (const auto& [name, phase] : count.at("phases").items()) {
    const auto interval = phase.value("interval", int64_t{1});
    print_work(interval == 1 ? name : fmt::format("{}, every {}", name, interval), phase, bytes);
  }
  print_work("all", iteration, bytes);
  fmt::print("  graphs replayed: {:.1f}\n\n  operators, by bytes\n",
             iteration.at("replays").get<double>());
  const Json& rows = count.at("operators");
  for (size_t i = 0; i < std::min(kRows, rows.size()); ++i)
    print_work(rows[i].at("name"), rows[i], bytes);
}

}  // namespace gantrain
