// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gantrain {

// What is said of the nodes of a run, by the launchers and by the ranks.

// A node and those of its ranks that are meant, from `first` to `last`.
struct NodeRanks {
  int64_t node = 0;
  int64_t first = 0, last = 0;
};

// "node 1 (rank 1), node 3 (ranks 6 to 7)". Of more than eight nodes it names eight.
std::string nodes_text(const std::vector<NodeRanks>& nodes);
// "ranks 2, 5, 6". Of more than eight it names eight.
std::string ranks_text(const std::vector<int64_t>& ranks);
// "2 ranks on 1 nodes"
std::string sizes_text(int64_t ranks, int64_t nodes);
// Two nodes were given different sizes of the run; each with the place that was given it.
std::string disagreement_text(const std::string& sizes,
                              const std::string& place,
                              const std::string& other_sizes,
                              const std::string& other_place);
// `who` ("rank 2", "node 1") is there twice.
std::string started_twice_text(const std::string& who,
                               const std::string& place,
                               const std::string& other_place);

}  // namespace gantrain
