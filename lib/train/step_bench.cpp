// SPDX-License-Identifier: Apache-2.0
#include "train/step_bench.h"

#include <torch/torch.h>

#include <algorithm>
#include <ctime>

#include "data/options.h"
#include "train/training_step.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr double kTimeout = 300;  // seconds

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

StepTimes time_steps(const StepBench& bench, const Rendezvous& rendezvous) {
  const auto data = bench.config.read<DataOptions>("data.");
  const auto group = Group::join(rendezvous, BackendKind::kGloo, at::kCPU, kTimeout);
  const int64_t channels = data.channels.value_or(3);
  TrainingStep step({bench.config, bench.recipe, group, at::kCPU, data.resolution, channels});
  const Samples mine{group->rank(), group->world(), step.plan().batch / group->world()};
  const at::Tensor real =
      torch::tanh(normal(Stream(0, "bench"), mine, {channels, data.resolution, data.resolution}));

  StepTimes times;
  for (int64_t i = 0; i < bench.warm + bench.steps; ++i) {
    const double start = monotonic_seconds(), cpu = cpu_seconds();
    const StepReport report = step.run({real, {}, i, 0});
    if (i < bench.warm) continue;
    times.seconds.push_back(monotonic_seconds() - start);
    times.cpu.push_back(cpu_seconds() - cpu);
    for (const PhaseReport& ran : report.phases) {
      PhaseTimes& phase = times.phases[ran.phase->name];
      phase.bytes += static_cast<double>(ran.spent.traffic.bytes);
      phase.collectives += static_cast<double>(ran.spent.traffic.collectives);
      phase.buckets = ran.spent.buckets;
      phase.waited.push_back(ran.spent.waited);
    }
  }
  for (auto& [name, phase] : times.phases) {
    phase.bytes /= static_cast<double>(bench.steps);
    phase.collectives /= static_cast<double>(bench.steps);
  }
  group->barrier();
  return times;
}

Communication communication_of(const std::vector<StepTimes>& ranks) {
  Communication all;
  const auto count = static_cast<double>(ranks.front().seconds.size());
  for (const auto& [name, phase] : ranks.front().phases) {
    for (size_t i = 0; i < phase.waited.size(); ++i) {
      double least = phase.waited[i];
      double mean = 0;
      for (const StepTimes& rank : ranks) {
        const double waited = rank.phases.at(name).waited.at(i);
        least = std::min(least, waited);
        mean += waited / static_cast<double>(ranks.size());
      }
      all.exposed += least / count;
      all.skew += (mean - least) / count;
    }
  }
  return all;
}

Json to_json(const StepTimes& times) {
  Json json = {{"seconds", times.seconds}, {"cpu", times.cpu}, {"phases", Json::object()}};
  for (const auto& [name, phase] : times.phases) {
    json["phases"][name] = {{"bytes", phase.bytes},
                            {"collectives", phase.collectives},
                            {"buckets", phase.buckets},
                            {"waited", phase.waited}};
  }
  return json;
}

StepTimes step_times_from(const Json& json) {
  StepTimes times;
  times.seconds = json.at("seconds").get<std::vector<double>>();
  times.cpu = json.at("cpu").get<std::vector<double>>();
  for (const auto& [name, phase] : json.at("phases").items()) {
    times.phases[name] = {phase.at("bytes"),
                          phase.at("collectives"),
                          phase.at("buckets"),
                          phase.at("waited").get<std::vector<double>>()};
  }
  return times;
}

}  // namespace gantrain
