// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "distributed/group.h"

namespace gantrain {

// Runs `body` in `world` new processes and returns how many of them failed. The calling process
// must not have called LibTorch yet. A body returns its exit code, and all but 0 count as failed;
// if it throws, the reason is printed and it counts as failed too; so does a process that a signal
// ends, and the signal is printed. Each process has one thread and ignores SIGPIPE, as the
// launcher's ranks do.
int failed_ranks(int64_t world, const std::function<int(const Rendezvous&)>& body);

}  // namespace gantrain
