// SPDX-License-Identifier: Apache-2.0
#include "train/step_bench_gpu.h"

#include <algorithm>
#include <cmath>

#include "core/device_waits.h"
#include "train/algorithms.h"
#include "train/device_memory.h"
#include "train/mixed_precision.h"
#include "util/log.h"
#include "util/time.h"

namespace gantrain {

void choose_gpu_arithmetic(const Config& config) {
  allow_tf32(config.read<PrecisionOptions>("precision.").tf32);
  choose_algorithms(config.read<TrainOptions>("train.").deterministic);
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

}  // namespace gantrain
