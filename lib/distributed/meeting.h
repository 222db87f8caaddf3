// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "util/rank_info.h"

namespace c10d {
class Store;
}

namespace gantrain {

// Brings all ranks together at the store, before a process group is formed, so that what keeps them
// apart is said within `timeout_seconds` on every rank that came, and with the same words. Throws
// UserError(kEnvironment) that names the ranks that did not come and their nodes, the rank that was
// started twice and where, or the node whose ranks count otherwise. `store` must have no keys of an
// earlier meeting. All ranks call it once.
void meet(c10d::Store& store, const RankInfo& ranks, double timeout_seconds);

}  // namespace gantrain
