// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launch/rank_status_board.h"

namespace gantrain {

// How a rank failed, from its end as the launcher saw it and from its slot of the rank status
// board.
struct RankFailure {
  int64_t rank = 0;
  pid_t pid = 0;
  int64_t ns = 0;  // monotonic_ns() when the rank reported it, or else when its end was seen
  int signal = 0;  // the signal that ended it; 0: it ended by itself
  int code = 0;    // the code that the rank reported, or else its exit code
  std::string message;
  std::string stack;  // of the thread that crashed; "" if none did
  std::string phase;
  int64_t iteration = 0;
  int64_t images_seen = 0;
  int64_t peak_kib = 0;           // the most memory that it ever had, in KiB; 0: unknown
  bool sent_by_gantrain = false;  // the signal followed from the launcher's death
  bool host_was_short = false;    // the kernel's out-of-memory killer was at work during the run
};

// The failure of a rank as far as its slot of the board tells where the rank was: its pid, phase,
// iteration and images, and the stack if it crashed. How it ended is left open.
RankFailure where_it_was(const RankSlot& slot, int64_t rank);

// True if the failure is one that a rank has because another rank died or did not come, such as
// "connection closed by peer" or a collective's timeout. A rank may die of it by SIGABRT: NCCL's
// watchdog thread ends the process so.
bool is_victim(const RankFailure& failure);

// True if the rank is a victim that waited for others until its time was over.
bool waited_in_vain(const RankFailure& failure);

// The failure that caused the others. That is the earliest one. If the earliest looks like a
// victim's, it is the first that does not and came at most a second later, if there is such a one.
// `failures` must not be empty.
const RankFailure& first_failure(const std::vector<RankFailure>& failures);

// The exit code of the whole run: the failed rank's code if that is 2 to 8; 7 if the kernel killed
// it for want of host memory; otherwise 6.
int exit_code(const RankFailure& failure);

// True if starting the ranks again may help. It does not help where the user has to change
// something first.
bool is_restartable(const RankFailure& failure);

// Describes the failure in one to five lines, without a newline at the end: the rank, its host and
// pid, how it ended, in which phase and how far the training was, and the rank's message, of which
// the lines that name the cause come first. For a bad
// configuration or bad data that was found before the first iteration, it is the message alone.
std::string failure_text(const RankFailure& failure, const std::string& host, int64_t nnodes);

// Says in one line which rank is behind and what it was doing.
std::string behind_text(const RankFailure& behind, const std::string& host);

// "no progress for 10m (--hang-timeout): ", which stands before the rank that is behind.
std::string hang_text(double hang_timeout_seconds);

// "; rank 0 waited for it in vain: timed out", which stands behind the rank that is behind.
std::string waiting_text(const RankFailure& waiting);

// behind_text() and waiting_text() in one.
std::string vain_wait_text(const RankFailure& behind,
                           const RankFailure& waiting,
                           const std::string& host);

// A table with one line per rank: its number, phase, iteration, kimg and the seconds since its last
// sign of life. `first_rank` is the rank of the board's first slot.
std::string progress_table(const RankStatusBoard& board, int64_t first_rank);

// The number of processes that the kernel's out-of-memory killer has ended so far on this host and
// in this control group. A rise between two calls says that it was at work.
int64_t out_of_memory_kills();

}  // namespace gantrain
