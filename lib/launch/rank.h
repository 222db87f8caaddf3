// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "launch/rank_status_board.h"

namespace gantrain {

// What a rank is told. The board outlives it.
struct RankContext {
  int64_t rank = 0;
  int64_t local_rank = 0;
  int64_t world_size = 1;
  int64_t local_world_size = 1;
  int64_t node_rank = 0;
  int64_t nnodes = 1;
  std::string master_addr;
  int64_t master_port = 0;
  int listen_fd = -1;            // rank 0: a socket that listens on master_port, for its store
  bool store_is_served = false;  // by another launcher: rank 0 is a client of the store too
  RankStatusBoard* board = nullptr;
  int64_t board_index = 0;  // this rank's slot
  int64_t threads = 1;
  int64_t attempt = 0;                     // 0, then 1, 2, ... after restarts (--max-restarts)
  const std::atomic<int>* stop = nullptr;  // not 0: the signal that asks to save and stop

  RankSlot& slot() const { return board->slot(board_index); }
};

// A rank's work; returns its exit code. What it throws goes to the board: UserError with its code,
// std::bad_alloc as kOutOfMemory, other exceptions as kInternal.
using RankMain = int (*)(const RankContext& context, const char* config_json);

// RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK MASTER_ADDR MASTER_PORT, and
// OMP_NUM_THREADS unless the user set it and did not ask for another number.
void export_environment(const RankContext& context, bool threads_given);

// The rank's top: calls `main` and turns what it throws into a report on the board and an exit
// code.
int run_rank(const RankContext& context, RankMain main, const std::string& config_json);

}  // namespace gantrain
