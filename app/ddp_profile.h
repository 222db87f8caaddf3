// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/config.h"
#include "ddp_model.h"
#include "util/rank_info.h"

namespace gantrain {

// Iterations that the plan of more ranks is made of.
struct ProfileSteps {
  int64_t warm = 1;
  int64_t timed = 3;
};

// Returns what one rank computes in an iteration, and when in a backward pass each gradient is
// there. Every phase runs in every iteration; the times are medians. It computes in the calling
// process with its threads, as a rank without peers. Name and description are left empty.
Workload profile_workload(const Config& config, const ProfileSteps& steps);

// Returns bandwidth and latency with which all_reduce_seconds() gives the times that the ranks
// measure now through gloo, of a few bytes and of many. All ranks call it together.
Link fit_link(const Rendezvous& rendezvous);

}  // namespace gantrain
