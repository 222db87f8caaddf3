// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "launch/rank_status_board.h"
#include "util/rank_info.h"

namespace gantrain {

// What a rank is told when it starts. The rank status board lives longer than the context.
struct RankContext {
  Rendezvous rendezvous;
  RankStatusBoard* board = nullptr;
  int64_t board_index = 0;  // of this rank's slot
  int64_t threads = 1;      // that this rank computes with
  int64_t attempt = 0;      // 0 at the first start, 1, 2, ... after restarts (--max-restarts)
  // Holds the signal that asked this rank to save and stop; 0 as long as there was none.
  const std::atomic<int>* stop = nullptr;

  const RankInfo& ranks() const { return rendezvous.ranks; }
  int64_t rank() const { return rendezvous.ranks.rank; }
  RankSlot& slot() const { return board->slot(board_index); }
};

// The work of a rank. It returns the rank's exit code. `request_json` is the text that was given to
// launch() or run_worker(). What the function throws is reported on the rank status board: a
// UserError with its own code, std::bad_alloc as kOutOfMemory, any other exception as kInternal.
using RankMain = int (*)(const RankContext& context, const char* request_json);

// Sets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, NODE_RANK, MASTER_ADDR and
// MASTER_PORT in the environment of this process, as torchrun does. Sets OMP_NUM_THREADS too,
// unless the user set that variable and `threads_given` (--threads) is false.
void export_environment(const RankContext& context, bool threads_given);

// Reports the exception that is being handled on the rank status board, and returns its exit code.
// Only the first report of a rank counts.
int report_exception(const RankContext& context);

// Calls `main` and turns what it throws into a report on the rank status board and an exit code.
int run_rank(const RankContext& context, RankMain main, const std::string& request_json);

}  // namespace gantrain
