// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "util/error.h"

namespace gantrain {

// Nanoseconds of CLOCK_MONOTONIC: comparable between the processes of one machine.
int64_t monotonic_ns();

// What a rank says of itself. It lies in memory that the launcher shares: what was written stays
// readable after the rank died, however it died. Written by its rank alone (from one thread, save
// report_failure), read by anyone; nothing here locks or allocates.
class RankSlot {
 public:
  static constexpr size_t kPhaseBytes = 32;
  static constexpr size_t kMessageBytes = 4096;

  struct Failure {
    Exit code = Exit::kInternal;
    int64_t ns = 0;  // when it was reported
    std::string message;
  };

  // What the rank does now, "D backward"; cut at 31 bytes.
  void set_phase(std::string_view phase);
  std::string phase() const;

  // A sign of life, after each iteration and inside long work. The hang watch starts at the first.
  void beat(int64_t iteration, int64_t images_seen);
  void beat() { heartbeat_ns_.store(monotonic_ns(), std::memory_order_release); }
  int64_t iteration() const { return iteration_.load(std::memory_order_relaxed); }
  int64_t images_seen() const { return images_seen_.load(std::memory_order_relaxed); }
  int64_t heartbeat_ns() const { return heartbeat_ns_.load(std::memory_order_acquire); }  // 0: none

  // Why this rank is about to end. The first report stays, later ones are dropped. May be called
  // from any thread and from a signal handler.
  void report_failure(Exit code, std::string_view message);
  std::optional<Failure> failure() const;

  void set_pid(int64_t pid) { pid_.store(pid, std::memory_order_release); }
  int64_t pid() const { return pid_.load(std::memory_order_acquire); }

 private:
  enum : int { kNone = 0, kBeingWritten = 1, kWritten = 2 };

  std::atomic<int64_t> pid_{0};
  std::atomic<int64_t> iteration_{0};
  std::atomic<int64_t> images_seen_{0};
  std::atomic<int64_t> heartbeat_ns_{0};
  std::array<std::atomic<uint64_t>, kPhaseBytes / 8> phase_{};
  std::atomic<int> failure_state_{kNone};
  std::atomic<int> failure_code_{0};
  std::atomic<int64_t> failure_ns_{0};
  std::array<char, kMessageBytes> message_{};
};

// One slot per rank of this machine and what the launcher tells all of them, in anonymous shared
// memory: made before the ranks are forked, gone with the last process that has it.
class RankStatusBoard {
 public:
  static std::unique_ptr<RankStatusBoard> create(int64_t ranks);
  ~RankStatusBoard();
  RankStatusBoard(const RankStatusBoard&) = delete;
  RankStatusBoard& operator=(const RankStatusBoard&) = delete;

  int64_t ranks() const { return ranks_; }
  RankSlot& slot(int64_t index);
  const RankSlot& slot(int64_t index) const;

  // The signal that asked for a stop (SIGINT, SIGTERM, SIGUSR1, ...); 0: none did.
  void request_stop(int signal);
  int stop_request() const;

  // A rank has failed: ranks that get SIGTERM now leave at once instead of saving.
  void set_aborting();
  bool aborting() const;

  int64_t start_ns() const;

  // Where the run leaves its files, told by rank 0 once it is known; cut at 4095 bytes.
  void set_run_folder(const std::string& folder);
  std::string run_folder() const;

 private:
  struct Shared;
  RankStatusBoard(Shared* shared, int64_t ranks, size_t bytes)
      : shared_(shared), ranks_(ranks), bytes_(bytes) {}

  Shared* shared_;
  int64_t ranks_;
  size_t bytes_;
};

}  // namespace gantrain
