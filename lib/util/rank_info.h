// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gantrain {

// Which of the ranks of a run this process is, and on which node. Ranks and nodes count from 0.
struct RankInfo {
  int64_t rank = 0;         // among the ranks of all nodes
  int64_t world = 1;        // number of ranks on all nodes
  int64_t local_rank = 0;   // among the ranks of this node
  int64_t local_world = 1;  // number of ranks on this node
  int64_t node_rank = 0;    // which node this is
  int64_t nodes = 1;        // number of nodes
};

// Where rank 0 serves the store at which the ranks meet.
struct Endpoint {
  std::string host = "127.0.0.1";
  int64_t port = 0;  // 0: not known yet
};

// All that a rank must know to meet the other ranks of its run.
struct Rendezvous {
  RankInfo ranks;
  Endpoint master;
  // On rank 0: a socket that listens at `master` already, which the store takes over. -1: there is
  // none, and the store binds master.port itself.
  int listen_fd = -1;
  // True where another launcher serves the store; then rank 0 is a client of it too.
  bool store_is_served = false;
};

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
