// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "data/options.h"

namespace gantrain {

// What decides how many loading threads a rank needs.
struct LoadingMachine {
  int64_t cores = 1;      // that the ranks of this node may use together
  int64_t ranks = 1;      // on this node
  int64_t computing = 1;  // threads that keep a rank's cores busy without loading
};

// Returns the number of loading threads of a rank: options.workers, or for auto a rank's share of
// the cores less those that compute, from 1 to 8; at most 2 for synth:shapes, which need no
// decoder. The batches do not depend on it.
int64_t choose_workers(const DataOptions& options, const LoadingMachine& machine);

// Says the automatic choice in one line, for the start of a run; "" if options.workers is given.
std::string workers_text(const DataOptions& options, const LoadingMachine& machine);

// Threads that a rank computes with where a GPU does the work: one gives the orders, one goes
// through the graph backwards.
inline constexpr int64_t kThreadsBesideGpu = 2;

}  // namespace gantrain
