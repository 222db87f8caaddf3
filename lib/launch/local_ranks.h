// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gantrain {

struct LocalRank {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t port = 0;    // of 127.0.0.1, for rank 0's store
  int listen_fd = -1;  // rank 0: a socket that listens there already
};

// Runs `body` in `world` children of this process and returns what each returned, by rank. For
// checks of a moment, without a launcher's care; this process must have no threads (so not have
// called LibTorch). Children die with it, and after `seconds`. Throws UserError(kRankDied) with
// what the first rank that failed threw, or how it died.
std::vector<std::string> run_local_ranks(int64_t world,
                                         int64_t seconds,
                                         const std::function<std::string(const LocalRank&)>& body);

}  // namespace gantrain
