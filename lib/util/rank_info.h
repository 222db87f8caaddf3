// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

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

  // True where all ranks are on this node, so that they can talk over the loopback interface.
  bool one_node() const { return ranks.nodes == 1; }
};

}  // namespace gantrain
