// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/group.h"
#include "distributed/options.h"

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

}  // namespace gantrain
