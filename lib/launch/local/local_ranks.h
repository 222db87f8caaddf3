// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "util/rank_info.h"

namespace gantrain {

// Runs `body` in `world` children of this process and returns what each of them returned, by rank.
// The children can meet on the loopback interface. This is for short checks that do not need what
// the launcher does for a run. The calling process must have no threads, so it must not have called
// LibTorch. The children are killed when this process dies, and after `seconds`. Throws
// UserError(kRankDied) with what the first rank that failed threw, or with how it died.
std::vector<std::string> run_local_ranks(int64_t world,
                                         int64_t seconds,
                                         const std::function<std::string(const Rendezvous&)>& body);

}  // namespace gantrain
