// SPDX-License-Identifier: Apache-2.0
// What the benchmarks' command lines share.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/requests.h"
#include "command/options.h"
#include "config/resolve.h"
#include "recipes/facts.h"

namespace gantrain {

using Pairs = std::vector<std::pair<std::string, std::string>>;  // ConfigSources::flags

// Completes what the command line says of the peers. Without --python their interpreter is
// GANTRAIN_PYTHON, or python3. `own_threads`: they are to do without the environment variables
// that this program sets for itself before it computes.
void complete_peers(Peers& peers, const Options& options, bool own_threads);

std::string names_of(const std::vector<RecipeFacts>& recipes, const std::string& between);

// Reads --nets and --ranks, words with commas between. Throw UserError(kUsage) that says what there
// is.
std::vector<RecipeFacts> networks_named(const std::string& names,
                                        const std::vector<RecipeFacts>& all);
std::vector<int64_t> rank_numbers(const std::string& text, int64_t least, int64_t most);

// The recipes with a network for one of the benchmarks.
template <class Case>
std::vector<RecipeFacts> recipes_with(Case RecipeFacts::*network) {
  std::vector<RecipeFacts> all = recipe_facts();
  std::erase_if(all, [&](const RecipeFacts& recipe) { return (recipe.*network).preset.empty(); });
  return all;
}

// Warnings and errors alone: not that batches differ from presets'.
void quieten();

// The configuration of a preset with --set of these pairs, then these flags.
Config config_of(const std::string& preset,
                 const std::vector<std::string>& set,
                 const Pairs& flags,
                 const Site& site);

// gantrain bench ddp and modes.
Verb bench_ddp_verb();
Verb bench_modes_verb();

}  // namespace gantrain
