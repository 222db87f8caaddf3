// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "distributed/group.h"
#include "distributed/options.h"
#include "train/run/reporter.h"
#include "train/step/training_step.h"

namespace gantrain {

// What one rank was measured to do while all ranks did the same.
struct RankSpeed {
  double compute = 0;  // GFLOP/s of a matrix product in float32
  double copy = 0;     // GB/s: from the host's memory to the GPU's; on a CPU within its memory
  double link = 0;     // GB/s to the next rank; 0: it was not measured
  double clock = 0;    // seconds since 1970, at one moment for all ranks
  int64_t node = 0;
};

// Says which ranks, links and nodes do less than `share` of the median of all, and whose clock
// differs from rank 0's by more than a second; a sentence each.
std::vector<std::string> weak_spots(const std::vector<RankSpeed>& ranks, double share);

// Whether ranks are measured before the first iteration: with dist.preflight=auto, where several
// GPUs or nodes work together.
bool flies_before(const DistOptions& options, const RankInfo& ranks, c10::Device device);

// Where flies_before() says so, measures all ranks for half a second, and says what was found in
// one line; warns of weak spots. With dist.preflight=on or only, throws UserError(kEnvironment) on
// all ranks where there are some. Links are measured where gloo connects the ranks. All ranks call
// it together.
void preflight(const DistOptions& options, Group& group, c10::Device device);

// How long a rank computes, beside the others.
struct RankTime {
  int64_t rank = 0;
  double seconds = 0;  // of an iteration that it computes itself
  double others = 0;   // the others' median
  size_t part = 0;     // of an iteration, in which it loses the most

  // By which share of the others' time it computes longer.
  double behind() const { return others > 0 ? seconds / others - 1 : 0; }
};

// Returns the time of one of two or more ranks. `ranks` has the seconds of each rank's parts of an
// iteration.
RankTime time_of(const std::vector<std::vector<double>>& ranks, size_t rank);

// Compares how long ranks compute, their waits for each other taken out, and names one that is
// behind. Where reading a device waits, as on a GPU, the host's times say nothing, and nothing is
// compared; nor is anything with one rank.
class Stragglers {
 public:
  static constexpr int64_t kIterations = 50;  // at least, between two comparisons
  static constexpr double kBehind = 0.15, kRecovered = 0.1;

  Stragglers(std::shared_ptr<Group> group, const std::vector<Phase>& phases, int64_t images_seen);

  // Adds an iteration: its report, the seconds that it waited for data, and those it took in all.
  void add(const StepReport& report, double data, double total);
  // At a tick, on all ranks together: warns of the slowest rank where it fell behind, once, and
  // says of each rank that was warned of when it no longer is. Records Ranks/behind, by which share
  // of the others' time the slowest rank is behind, and Ranks/slowest, which one.
  void compare(Reporter& reporter, int64_t images_seen);

 private:
  std::vector<std::vector<double>> seconds_of_ranks();
  void tell(const RankTime& slowest, int64_t images_seen);

  std::shared_ptr<Group> group_;
  std::vector<std::string> parts_;
  std::vector<double> seconds_;  // of this rank since the last comparison, by part
  int64_t iterations_ = 0;
  int64_t begun_;            // images seen when the iterations that are compared began
  std::set<int64_t> named_;  // ranks that were warned of and are still behind
};

}  // namespace gantrain
