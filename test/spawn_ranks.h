// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "distributed/group.h"

namespace gantrain {

// Runs `body` in `world` processes of their own, before this one has called LibTorch, and returns
// how many of them ended without 0. A body that throws prints the reason and ends with 1. A body
// returns its exit code; killed processes count as failed, and their signal is printed. Each has
// one thread and ignores SIGPIPE, as the launcher's ranks do.
int failed_ranks(int64_t world, const std::function<int(const Rendezvous&)>& body);

}  // namespace gantrain
