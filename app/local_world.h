// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "util/rank_info.h"

namespace gantrain {

// Does the same as run_local_ranks() (launch/local_ranks.h) for bodies that use LibTorch: in the
// children, LibTorch's warnings are shown only with -v.
std::vector<std::string> run_local_world(int64_t world,
                                         int64_t seconds,
                                         const std::function<std::string(const Rendezvous&)>& body);

}  // namespace gantrain
