// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/requests.h"
#include "config/config.h"

namespace gantrain {

// The ways in which a run on so many cores of a CPU can use them, the plain default (one rank with
// all cores as threads) first: one rank of one thread, and ranks of a power of two among which all
// cores and the batch divide. Left out are numbers of ranks that would change the numbers of the
// run: those that the recipe's automatic values depend on, and those whose shares of the batch are
// no whole groups of pictures that are normalised together. `left_out` says why there are no ranks
// among the ways; "" where there are.
std::vector<ProcessorUse> uses_of_processors(const Config& config,
                                             int64_t cores,
                                             std::string& left_out);

// Chooses launch.nproc and launch.threads of a run on so many cores of this machine by timing some
// iterations in each way, in processes of their own; a resumed run keeps what it began with. Both
// keys then have the origin "auto (measured)", and the returned line has the figures. Nothing is
// measured, and
// "" returned, where the user, --deterministic or OMP_NUM_THREADS has decided, and for runs that
// would end sooner than a measurement pays. `complete` is the same run with the values that its
// recipe chooses for one rank. `time` returns the seconds of an iteration in each way,
// 0 where it does not know.
using TimeUses = std::function<std::vector<double>(const TimeUsesRequest&)>;
std::string choose_processors(Config& config,
                              const Config& complete,
                              int64_t cores,
                              const TimeUses& time);

}  // namespace gantrain
