// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launch/rank_status_board.h"

namespace gantrain {

// How a rank failed: its end as the launcher saw it and what its slot of the board says.
struct RankFailure {
  int64_t rank = 0;
  pid_t pid = 0;
  int64_t ns = 0;  // when: reported by the rank, else when its end was seen
  int signal = 0;  // 0: it ended by itself
  int code = 0;    // what the rank reported, else its exit code
  std::string message;
  std::string phase;
  int64_t iteration = 0;
  int64_t images_seen = 0;
  int64_t peak_kib = 0;         // most memory it ever had
  bool host_was_short = false;  // the kernel's out-of-memory killer was at work meanwhile
};

// True for a failure that is what a rank sees when another one dies ("connection closed by peer").
bool is_victim(const RankFailure& failure);

// The failure that the others follow from: the earliest, but one that looks like a victim's yields
// to one that does not and came at most a second later. `failures` is not empty.
const RankFailure& first_failure(const std::vector<RankFailure>& failures);

// The world's exit code: the failing rank's if it is 2 to 8, else 6.
int exit_code(const RankFailure& failure);

// True where a new start may help: not for what the user has to change first.
bool is_restartable(const RankFailure& failure);

// One to five lines without the last newline: rank, host, pid, how, phase, how far, and the rank's
// message. Bad configuration or data found before the first iteration is the message alone.
std::string failure_text(const RankFailure& failure, const std::string& host, int64_t nnodes);

// Rank, phase, iteration, kimg and the age of the last sign of life, one line per rank.
std::string progress_table(const RankStatusBoard& board, int64_t first_rank);

// Processes that the kernel's out-of-memory killer has ended so far, on this host or in this
// control group; a rise says that it was at work.
int64_t out_of_memory_kills();

std::string host_name();

}  // namespace gantrain
