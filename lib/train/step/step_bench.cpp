// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_bench.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

#include "config/schema.h"
#include "core/device.h"
#include "core/torch.h"
#include "data/options.h"
#include "ops/device_kernels.h"
#include "ops/kernels.h"
#include "train/cpu_precision/cpu_precision.h"
#include "train/step/mixed_precision.h"
#include "train/step/training_step.h"
#include "util/log.h"
#include "util/sample.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

void choose_gpu_arithmetic(const Config& config) {
  allow_tf32(config.read<PrecisionOptions>().tf32);
  choose_algorithms(config.read<TrainOptions>().deterministic);
}

void cut_for_gpu(TrainingStep& step,
                 Group& group,
                 at::Device device,
                 const TrainOptions& train,
                 const FitRequest& request) {
  const std::shared_ptr<DeviceMemory> memory = memory_of(device);
  if (!memory) return;
  if (!train.micro_batch && !train.accumulate)
    info("memory  {}", fit_micro_batch(step, group, *memory, request));
  memory->restart();
}

void time_unwatched(StepTimes& times,
                    const std::function<void(int64_t iteration)>& iterate,
                    int64_t round,
                    at::Device device,
                    const RowPlan& plan) {
  constexpr double kMostRounds = 256;
  const auto seconds_of = [&](int64_t count) {
    wait_for(device);
    const double start = monotonic_seconds();
    for (int64_t i = 0; i < count; ++i) iterate(i);
    wait_for(device);
    return monotonic_seconds() - start;
  };
  // The first round shows phases in iterations in which others are not due; the second is timed.
  seconds_of(round);
  const double rounds = std::clamp(std::ceil(plan.seconds / seconds_of(round)), 1.0, kMostRounds);
  const int64_t count = round * static_cast<int64_t>(rounds);
  for (int64_t row = 0; row < plan.rows; ++row)
    times.unwatched.push_back(seconds_of(count) / static_cast<double>(count));
  const auto memory = memory_of(device);
  if (!memory) return;
  const MemoryPeaks peaks = memory->peaks();
  times.peak_bytes = static_cast<double>(peaks.allocated);
  times.reserved_bytes = static_cast<double>(peaks.reserved);
}

int64_t round_of(const std::vector<Phase>& phases) {
  int64_t round = 1;
  for (const Phase& phase : phases) round = std::lcm(round, phase.cadence.interval);
  return round;
}

int64_t enter_last_stage(TrainingStep& step) {
  const std::vector<Stage>& stages = step.recipe().schedule().stages();
  if (stages.empty()) return 0;
  step.enter(static_cast<int64_t>(stages.size()) - 1);
  return stages.back().first;
}

namespace {

constexpr double kTimeout = 300;  // seconds

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The iteration below the least common multiple of the intervals in which most phases are due.
int64_t fullest_iteration(const std::vector<Phase>& phases) {
  const int64_t round = round_of(phases);
  int64_t fullest = 0, most = 0;
  for (int64_t i = 0; i < round; ++i) {
    const int64_t due = std::count_if(
        phases.begin(), phases.end(), [i](const Phase& phase) { return phase.is_due(i); });
    if (due > most) {
      most = due;
      fullest = i;
    }
  }
  return fullest;
}

// Splits the seconds of an iteration among its phases, by what the step says that it does next.
class PhaseClock {
 public:
  explicit PhaseClock(const StepBench& bench) : bench_(bench) {}

  void begin(bool timed) {
    timed_ = timed;
    phase_.clear();
    spent_.clear();
    if (timed_) wait_for(bench_.device);
    last_ = monotonic_seconds();
  }
  // "Gmain forward", or "shared statistics". A phase that is recorded as a graph says more while
  // nothing may wait, but always the same phase.
  void next(const std::string& doing) {
    const size_t space = doing.find(' ');
    const bool shared = doing == "shared statistics";
    const std::string phase = shared ? "" : doing.substr(0, space);
    if (phase != phase_) lap(phase);
    if (timed_) bench_.doing(phase, shared ? doing : doing.substr(space + 1));
  }
  void end(StepTimes& times) {
    lap("");
    if (!timed_) return;
    bench_.doing("", "");
    times.rest.push_back(spent_[""]);
    for (const auto& [name, seconds] : spent_) {
      if (!name.empty()) times.phases[name].seconds.push_back(seconds);
    }
  }

 private:
  void lap(const std::string& next) {
    if (timed_) wait_for(bench_.device);
    const double now = monotonic_seconds();
    spent_[phase_] += now - last_;
    last_ = now;
    phase_ = next;
  }

  const StepBench& bench_;
  bool timed_ = false;
  std::string phase_;  // that runs now; "": none
  double last_ = 0;    // when it began
  std::map<std::string, double> spent_;
};

void add(StepTimes& times, const PhaseReport& ran) {
  PhaseTimes& phase = times.phases[ran.phase->name];
  phase.interval = ran.phase->cadence.interval;
  phase.bytes += static_cast<double>(ran.spent.traffic.bytes);
  phase.collectives += static_cast<double>(ran.spent.traffic.collectives);
  phase.buckets = ran.spent.buckets;
  phase.waited.push_back(ran.spent.waited);
}

}  // namespace

StepTimes time_steps(const StepBench& bench, const Rendezvous& rendezvous) {
  const auto data = bench.config.read<DataOptions>();
  const bool on_cpu = bench.device.is_cpu();
  if (!on_cpu) choose_gpu_arithmetic(bench.config);
  const auto group = Group::join(rendezvous, BackendKind::kGloo, bench.device, kTimeout);
  const int64_t channels = data.channels.value_or(3);
  PhaseClock clock(bench);
  const auto train = bench.config.read<TrainOptions>();
  const WithKernels kernels(train.kernels);
  TrainingStep step({bench.config,
                     bench.recipe,
                     group,
                     bench.device,
                     data.resolution,
                     channels,
                     {},
                     [&clock](const std::string& doing) { clock.next(doing); }});
  if (on_cpu) {  // with --amp, the types that the run itself would choose
    decide_cpu_precision(step,
                         bench.config.read<PrecisionOptions>(),
                         trained_sizes(step, train, group->world(), data.resolution),
                         *group,
                         std::nullopt);
  }
  const int64_t images_seen = enter_last_stage(step);
  if (!on_cpu) cut_for_gpu(step, *group, bench.device, train, {data.resolution, images_seen, 0});
  bench.built(step);
  const Samples mine{group->rank(), group->world(), step.plan().batch / group->world()};
  const Tensor real = torch::tanh(normal(Stream(0, "bench"),
                                         mine,
                                         {channels, data.resolution.height, data.resolution.width}))
                          .to(bench.device);
  const int64_t fullest = fullest_iteration(step.recipe().phases());
  const int64_t warm = on_cpu ? bench.warm : std::max(bench.warm, kRunsUntilReplay);

  StepTimes times;
  for (int64_t i = 0; i < warm + bench.steps; ++i) {
    const bool timed = i >= warm;
    clock.begin(timed);
    const double start = monotonic_seconds(), cpu = cpu_seconds();
    const StepReport report = step.run({real, {}}, {bench.all_phases ? fullest : i, images_seen});
    clock.end(times);
    if (!timed) continue;
    times.seconds.push_back(monotonic_seconds() - start);
    times.cpu.push_back(cpu_seconds() - cpu);
    for (const PhaseReport& ran : report.phases) add(times, ran);
  }
  for (auto& [name, phase] : times.phases) {
    phase.bytes /= static_cast<double>(bench.steps);
    phase.collectives /= static_cast<double>(bench.steps);
  }
  times.peak_bytes = static_cast<double>(proc_bytes("/proc/self/status", "VmHWM"));
  times.batch = step.plan().batch;
  times.micro_batch = step.plan().micro_batch;
  if (!on_cpu) {
    const auto iterate = [&](int64_t i) { step.run({real, {}}, {i, images_seen}); };
    clock.begin(false);
    time_unwatched(times, iterate, round_of(step.recipe().phases()), bench.device);
  }
  group->barrier();
  return times;
}

double StepTimes::mean_iteration() const {
  if (!unwatched.empty()) return median(unwatched);
  double sum = median(rest);
  for (const auto& [name, phase] : phases)
    sum += median(phase.seconds) / static_cast<double>(phase.interval);
  return sum;
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

template <class Field>
void fields(PhaseTimes& o, Field&& field) {
  field("bytes", o.bytes);
  field("collectives", o.collectives);
  field("buckets", o.buckets);
  field("waited", o.waited);
  field("interval", o.interval);
  field("seconds", o.seconds);
}

template <class Field>
void fields(StepTimes& o, Field&& field) {  // but the phases
  field("seconds", o.seconds);
  field("cpu", o.cpu);
  field("rest", o.rest);
  field("peak_bytes", o.peak_bytes);
  field("unwatched", o.unwatched);
  field("reserved_bytes", o.reserved_bytes);
  field("batch", o.batch);
  field("micro_batch", o.micro_batch);
}

Json to_json(const StepTimes& times) {
  Json json = message_of(times);
  for (const auto& [name, phase] : times.phases) json["phases"][name] = message_of(phase);
  return json;
}

StepTimes step_times_from(const Json& json) {
  auto times = message_from<StepTimes>(json);
  const Json phases = json.value("phases", Json::object());  // items() refers to it
  for (const auto& [name, phase] : phases.items())
    times.phases[name] = message_from<PhaseTimes>(phase);
  return times;
}

}  // namespace gantrain
