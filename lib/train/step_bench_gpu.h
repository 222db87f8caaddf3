// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "train/micro_batch_fit.h"
#include "train/step_bench.h"

namespace gantrain {

// What time_steps() does on a GPU alone.

// A phase is run three times as it is, then recorded as a graph and replayed (PhaseGraphs): so many
// iterations until each phase has been replayed once by itself.
constexpr int64_t kRunsUntilReplay = 5;

// Chooses algorithms and arithmetic as the configuration says, as a run does before it computes.
void choose_gpu_arithmetic(const Config& config);

// Cuts the step's batch as training would: as the configuration says, else so that it fits the
// device's memory. Peaks of memory count from here.
void cut_for_gpu(TrainingStep& step,
                 Group& group,
                 at::Device device,
                 const TrainOptions& train,
                 const FitRequest& request);

// How many rows of iterations are timed, and the least seconds of one.
struct RowPlan {
  int64_t rows = 3;
  double seconds = 1;
};

// Times rows of iterations 0, 1, 2, ... as iterate(i) runs them, whole rounds of `round`
// iterations, and then notes the memory that all iterations took. The host waits for the device
// before and after a row.
void time_unwatched(StepTimes& times,
                    const std::function<void(int64_t iteration)>& iterate,
                    int64_t round,
                    at::Device device,
                    const RowPlan& plan = {});

}  // namespace gantrain
