// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/config.h"
#include "config/value.h"
#include "util/rank_info.h"

namespace gantrain {

struct RecipeRow;

// What `bench step --count` says of a pair of networks: counts on LibTorch's meta device one round
// of iterations of one rank, in which each phase is due as often as in training, after so many that
// all graphs are recorded. Returns {"phases": {name: {"interval", "kernels", "eager", "replays",
// "read", "written", "floor"}}, "iteration": the same, "operators": [{"name", "calls", "kernels",
// "eager", "read", "written", "floor"}], "batch", "micro_batch"}; numbers are of a mean iteration,
// "kernels" all launches and "eager" those outside of graphs. It is called in a child that
// computes nothing else. Throws UserError(kUsage) for what cannot be counted.
Json count_step(const Config& config, const RecipeRow& recipe, const Rendezvous& rendezvous);
// Prints it as a table.
void print_count(const Json& count);

}  // namespace gantrain
