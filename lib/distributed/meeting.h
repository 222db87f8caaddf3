// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "util/rank_info.h"

namespace c10d {
class Store;
}

namespace gantrain {

// Returns the numeric address under which the other nodes reach this one: that of the interface
// over which `master` is reached. Many systems resolve their own host's name to a loopback address;
// then it is the first address of an interface that is up. A master given as a loopback address
// ("127.0.0.1", "localhost", "::1") means that all nodes are on this machine: then it is that
// address. Returns "" where none can be found.
std::string local_address(const Endpoint& master);

// Brings all ranks together at the store, before a process group is formed, so that what keeps them
// apart is said within `timeout_seconds` on every rank that came, and with the same words. Throws
// UserError(kEnvironment) that names the ranks that did not come and their nodes, the rank that was
// started twice and where, or the node whose ranks count otherwise. `store` must have no keys of an
// earlier meeting. All ranks call it once.
void meet(c10d::Store& store, const RankInfo& ranks, double timeout_seconds);

}  // namespace gantrain
