// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/value.h"
#include "train/step/step_bench.h"
#include "util/rank_info.h"

namespace gantrain {

// From now on LibTorch's warnings in this thread are shown only with -v. They are written for
// programmers, for example the warnings of DistributedDataParallel.
void quieten_libtorch();

// Does the same as run_local_ranks() (launch/local/local_ranks.h) for bodies that use LibTorch: in
// the children, LibTorch's warnings are shown only with -v.
std::vector<std::string> run_local_world(int64_t world,
                                         int64_t seconds,
                                         const std::function<std::string(const Rendezvous&)>& body);

// Runs a measurement that uses LibTorch with that many threads, in a child of this process. This
// process must not call LibTorch itself.
Json in_child(int64_t threads, const std::function<Json(const Rendezvous&)>& measurement);

// Runs a measurement in each of so many local ranks, children of this process, which must not call
// LibTorch itself.
std::vector<Json> in_ranks(int64_t ranks,
                           const std::function<Json(const Rendezvous&)>& body,
                           int64_t threads = 1);

// Times iterations of ranks that train together, each in such a child: by rank.
std::vector<StepTimes> time_ranks(int64_t ranks, const StepBench& bench, int64_t threads = 1);

// Keeps freed memory as the trainer's ranks do. It is called once in a process that measures.
void keep_memory(const Config& config);

// Returns the median seconds of several runs after one that warms up; or the seconds of the first,
// if it takes longer than `hopeless`.
double seconds_alone(const std::function<void()>& run,
                     double hopeless = std::numeric_limits<double>::infinity());

// Where a benchmark computes, and how long work takes there. It is made in the child that measures
// (in_child()), before anything is computed.
class BenchDevice {
 public:
  // The CPU, or the first visible GPU, whose CUDA library must have been loaded.
  explicit BenchDevice(bool cuda);

  c10::Device device() const { return device_; }
  // "NVIDIA H100 80GB HBM3", or "" for a CPU.
  const std::string& name() const { return name_; }

  // Returns the seconds that `run` takes alone. On a GPU it is called often enough, between two
  // waits for the GPU, that what the host needs to give the work away is hidden behind the work,
  // unless it takes longer than that.
  double seconds(const std::function<void()>& run) const;
  // Returns the bytes per second, read and written ones together, of a large copy within this
  // device's memory.
  double copy_speed() const;

 private:
  c10::Device device_;
  std::string name_;
};

struct RecipeRow;

// What `bench step --count` says of a pair of networks: counts on LibTorch's meta device one round
// of iterations of one rank, in which each phase is due as often as in training, after so many that
// all graphs are recorded. Returns {"phases": {name: {"interval", "kernels", "eager", "replays",
// "read", "written", "floor"}}, "iteration": the same, "operators": [{"name", "calls", "kernels",
// "eager", "read", "written", "floor"}], "batch", "micro_batch"}; numbers are of a mean iteration,
// "kernels" all launches and "eager" those outside of graphs. It is called in a child that
// computes nothing else. Throws UserError(kUsage) for what cannot be counted.
Json count_step(const Config& config, const RecipeRow& recipe, const Rendezvous& rendezvous);
// Prints it as a table.
void print_count(const Json& count);

}  // namespace gantrain
