// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "distributed/group.h"
#include "gan/recipe.h"
#include "train/memory/device_memory.h"

namespace gantrain {

class TrainingStep;

// What a rank measured in one phase.
struct PhaseTimes {
  double bytes = 0;        // in an iteration
  double collectives = 0;  // in an iteration
  int64_t buckets = 0;
  std::vector<double> waited;   // PhaseTraffic::waited of each iteration
  int64_t interval = 1;         // it runs in one of so many iterations
  std::vector<double> seconds;  // of each iteration in which it ran, by the clock
};

struct StepTimes {
  std::vector<double> seconds;  // of each iteration
  std::vector<double>
      cpu;  // the process's processor seconds in it, which other programs hardly change
  std::map<std::string, PhaseTimes> phases;
  std::vector<double> rest;  // seconds of each iteration outside the phases
  // The most memory that the process has had so far; on a GPU that its tensors have had there.
  double peak_bytes = 0;
  // On a GPU: mean seconds of an iteration, of several rows of iterations as they are due in
  // training, between which nothing waits; and the most memory that was kept for tensors.
  std::vector<double> unwatched;
  double reserved_bytes = 0;
  int64_t batch = 0, micro_batch = 0;  // of all ranks; of a rank at a time

  // The mean over many iterations: the median of `unwatched`, or from medians the phases' seconds
  // divided by their intervals, and the rest.
  double mean_iteration() const;
};

struct StepBench {
  const Config& config;  // sections train, data, dist and the recipe's
  const RecipeRow& recipe;
  int64_t warm = 1;  // iterations before the timed ones; the very first has all phases
  int64_t steps = 3;
  bool all_phases = false;  // all phases are due in every iteration (where one has all of them)
  // Called with what a timed iteration does next: the phase's name and "forward", "backward" or
  // "step"; "", "" at its end, and "", "shared statistics" after the last phase.
  std::function<void(const std::string& phase, const std::string& part)> doing =
      [](const std::string&, const std::string&) {};
  // Called once with the step, before its first iteration.
  std::function<void(const TrainingStep& step)> built = [](const TrainingStep&) {};
  // A GPU must be LibTorch's current device already (begin_on_gpu), and one rank's.
  at::Device device = at::kCPU;
};

// Times iterations of a training step on random pictures, without data and files, as one gloo rank
// on the CPU with the threads that are set, or on a GPU. Networks that grow are at their last
// stage. On a GPU the batch is cut as in training, phases are timed after enough iterations for
// graphs to be recorded, and the host waits for the GPU only where a phase ends.
StepTimes time_steps(const StepBench& bench, const Rendezvous& rendezvous);

// Time that communication costs, over all ranks. During `exposed` no rank computes: the last rank
// has launched its last collective and waits, as all ranks do. `skew` is the further time that the
// other ranks wait for the last one.
struct Communication {
  double exposed = 0;  // seconds an iteration
  double skew = 0;     // mean over ranks
};
Communication communication_of(const std::vector<StepTimes>& ranks);

// Turn the times into JSON and back, to send them to another process.
Json to_json(const StepTimes& times);
StepTimes step_times_from(const Json& json);

// What each bench of a step does before its first iteration and between iterations.

// After so many iterations the same phases are due again.
int64_t round_of(const std::vector<Phase>& phases);
// Enters the last stage of networks that grow; returns images seen at its begin.
int64_t enter_last_stage(TrainingStep& step);

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
