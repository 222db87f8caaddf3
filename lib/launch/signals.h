// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <atomic>
#include <optional>
#include <string>

#include "launch/rank_status_board.h"
#include "launch/unique_fd.h"

namespace gantrain {

// "signal 9 (SIGKILL)"
std::string signal_text(int signal);

// In a rank: the signal that asked this process to save and stop, or 0. The flag is one per copy
// of this library in a process: code in another shared object reads RankContext::stop.
int stop_requested();
const std::atomic<int>& stop_flag();

// In a rank: SIGTERM and SIGUSR1 set the flag (or end the rank at once when the board says that
// the world is being aborted), SIGHUP and SIGPIPE are ignored, SIGINT too unless `interrupt_stops`,
// where a second one ends the process. Crashes (SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, an
// exception that nobody catches) write phase, signal and stack to standard error and a report to
// the slot, then the rank dies of that same signal. `board` must live as long as the process.
void install_rank_signals(RankStatusBoard& board, int64_t index, bool interrupt_stops);

// In the launcher: takes CHLD INT TERM USR1, and HUP unless it was ignored (nohup), as events of a
// descriptor; SIGPIPE is ignored, so that a closed terminal or a dead `tee` ends no training.
class SignalGate {
 public:
  SignalGate();
  ~SignalGate();  // the old mask again; signals that still wait are dropped
  SignalGate(const SignalGate&) = delete;
  SignalGate& operator=(const SignalGate&) = delete;

  int descriptor() const { return descriptor_.get(); }
  std::optional<int> next();  // never waits
  const sigset_t& original_mask() const { return original_mask_; }

 private:
  UniqueFd descriptor_;
  sigset_t original_mask_{};
};

}  // namespace gantrain
