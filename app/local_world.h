// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "distributed/group.h"

namespace gantrain {

// run_local_ranks() (lib/launch) for bodies that form a process group.
std::vector<std::string> run_local_world(int64_t world,
                                         int64_t seconds,
                                         const std::function<std::string(const Rendezvous&)>& body);

}  // namespace gantrain
