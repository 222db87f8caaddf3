// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launch/local/roster.h"
#include "util/error.h"
#include "util/rank_info.h"
#include "util/rank_trace.h"
#include "util/system.h"

namespace gantrain {

// What a rank tells about itself. A slot lies in memory that the launcher shares with the ranks, so
// the launcher can still read it after the rank died, however it died. Only its own rank writes to
// it, and from one thread, except report_failure(), report_crash(), `trace` and `saves`; every
// process may read it. No function here locks anything or allocates memory, except that the readers
// return strings.
class RankSlot {
 public:
  static constexpr size_t kMessageBytes = 4096;
  static constexpr size_t kStackBytes = 8192;

  struct Failure {
    Exit code = Exit::kInternal;
    int64_t ns = 0;  // monotonic_ns() when it was reported
    std::string message;
  };

  // Says what the rank does now, for example "D backward". Only the first 31 bytes are kept.
  void set_phase(std::string_view phase) { trace.set_phase(phase); }
  std::string phase() const { return trace.phase(); }

  // Gives a sign of life: after each iteration and during long work. The launcher watches a rank
  // for hanging from its first sign of life on.
  void beat(int64_t iteration, int64_t images_seen);
  void beat() { heartbeat_ns_.store(monotonic_ns(), std::memory_order_release); }
  int64_t iteration() const { return iteration_.load(std::memory_order_relaxed); }
  int64_t images_seen() const { return images_seen_.load(std::memory_order_relaxed); }
  // monotonic_ns() of the last sign of life; 0 if there was none yet.
  int64_t heartbeat_ns() const { return heartbeat_ns_.load(std::memory_order_acquire); }

  // Says why this rank is about to end. The first report is kept and later ones are dropped. This
  // may be called from any thread and from a signal handler.
  void report_failure(Exit code, std::string_view message);
  std::optional<Failure> failure() const;

  // What a crash handler writes down: the signal, and the stack of the thread that got it, of which
  // the first 8191 bytes are kept. The first report is kept. From a signal handler, too.
  struct Crash {
    int signal = 0;
    std::string stack;
  };
  void report_crash(int signal, std::string_view stack);
  std::optional<Crash> crash() const;

  std::atomic<int64_t> pid{0};
  // What the rank is at. The process group itself notes its collectives here.
  RankTrace trace;
  // The rank's main function has returned: its process ends in order from now on.
  std::atomic<bool> returned{false};
  // A save is being written, which is not broken off where another rank has failed.
  std::atomic<bool> saves{false};
  // A worker of another launcher has itself written down how it ended.
  std::atomic<bool> recorded{false};

 private:
  enum : int { kNone = 0, kBeingWritten = 1, kWritten = 2 };

  std::atomic<int64_t> iteration_{0};
  std::atomic<int64_t> images_seen_{0};
  std::atomic<int64_t> heartbeat_ns_{0};
  std::atomic<int> failure_state_{kNone};
  std::atomic<int> failure_code_{0};
  std::atomic<int64_t> failure_ns_{0};
  std::array<char, kMessageBytes> message_{};
  std::atomic<int> crash_state_{kNone};
  std::atomic<int> crash_signal_{0};
  std::array<char, kStackBytes> stack_{};
};

// One slot for each rank of this machine, and what the launcher tells all of them. The board lies
// in anonymous shared memory, which is made before the ranks are forked and vanishes with the last
// process that has it.
class RankStatusBoard {
 public:
  struct Unmap {
    void operator()(RankStatusBoard* board) const;
  };
  static std::unique_ptr<RankStatusBoard, Unmap> create(int64_t ranks);

  int64_t ranks() const { return ranks_; }
  RankSlot& slot(int64_t index) { return slots_[index]; }
  const RankSlot& slot(int64_t index) const { return slots_[index]; }
  // No rank is further than at its first rendezvous. Those of an elastic run that meet once more
  // have something to save.
  bool all_meet() const;
  bool any_saves() const;
  // Forgets what the slot's process told, which has ended: another one begins there.
  void renew(int64_t index);

  Roster roster;  // of an elastic run

  // The signal that asked the launcher for a stop (SIGINT, SIGTERM, SIGUSR1, ...); 0 if none did.
  std::atomic<int> stop_request{0};
  // The launcher sets this when a rank has failed. Ranks that get SIGTERM afterwards end at once
  // instead of saving; one that is writing a save ends behind it.
  std::atomic<bool> aborting{false};
  // The launcher of an elastic run clears this where others go on without it, should it die: then
  // they say how the run ends.
  std::atomic<bool> tells_of_run{true};
  const int64_t start_ns = monotonic_ns();  // when it was made

  // The folder of the run's files, which rank 0 tells as soon as it is known; "" before. Only the
  // first 4095 bytes are kept.
  void set_run_folder(const std::string& folder);
  std::string run_folder() const;

 private:
  RankStatusBoard(int64_t ranks, size_t bytes) : ranks_(ranks), bytes_(bytes) {}

  const int64_t ranks_;
  const size_t bytes_;  // of the shared memory
  std::atomic<bool> has_run_folder_{false};
  std::array<char, 4096> run_folder_{};
  RankSlot slots_[1];  // `ranks_` of them follow each other
};

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
