// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/common.h"
#include "command/options.h"
#include "gan/recipe_facts.h"

namespace gantrain {

// The benchmarks of `gantrain bench` that have a file of their own.
Verb bench_ddp_verb();
Verb bench_step_verb();

// Completes what the command line says of the peers. Without --python their interpreter is
// GANTRAIN_PYTHON, or python3. `own_threads`: they are to do without the environment variables
// that this program sets for itself before it computes.
void complete_peers(Peers& peers, const Options& options, bool own_threads);

// The recipes that `bench step` measures, in the order of its table.
std::vector<RecipeFacts> benched_recipes();

}  // namespace gantrain
