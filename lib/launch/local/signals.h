// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "launch/local/rank.h"
#include "launch/local/unique_fd.h"

namespace gantrain {

// Names a signal: "signal 9 (SIGKILL)".
std::string signal_text(int signal);

// In a rank: the signal that asked this process to save and stop, or 0. Each copy of this library
// in a process has a flag of its own, so code in another shared object must read RankContext::stop.
int stop_requested();
const std::atomic<int>& stop_flag();

// Installs the signal handlers of a rank.
// - SIGTERM and SIGUSR1 set the flag. If the board says that the run is being aborted, they end the
//   rank at once instead.
// - SIGHUP and SIGPIPE are ignored.
// - SIGINT is ignored too, unless `interrupt_stops`; then the first one sets the flag and a second
//   one ends the process.
// - A crash (SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, an exception that nobody catches) writes the
//   phase, the signal and the stack to standard error and a report to the slot; then the rank dies
//   of that same signal.
// The rank's slot is board.slot(index). `board` must live as long as the process.
void install_rank_signals(RankStatusBoard& board, int64_t index, bool interrupt_stops);

// In the launcher: makes SIGCHLD, SIGINT, SIGTERM and SIGUSR1 readable from a file descriptor, and
// SIGHUP too unless it was ignored (nohup). SIGPIPE is ignored, so that a closed terminal or a dead
// `tee` does not end the training.
class SignalGate {
 public:
  SignalGate();
  ~SignalGate();  // restores the old mask; signals that still wait are dropped
  SignalGate(const SignalGate&) = delete;
  SignalGate& operator=(const SignalGate&) = delete;

  int descriptor() const { return descriptor_.get(); }
  std::optional<int> next();  // the next signal that has arrived, if any; it never waits
  const sigset_t& original_mask() const { return original_mask_; }

 private:
  UniqueFd descriptor_;
  sigset_t original_mask_{};
};

// To be called first in main(). From then on SIGINT and SIGTERM, and SIGUSR1 and SIGHUP if a
// training is asked for, end this process with one line on standard error and a documented exit
// code: 130 for SIGINT, for the others 75 if a training is asked for, else 128 and the signal's
// number. A signal that was ignored stays so. Whoever installs handlers of their own later, or
// blocks these signals as SignalGate does, replaces this. Processes forked from this one end
// without a line.
void end_on_early_signals(bool training);

// From now on the signals of end_on_early_signals() do nothing: the work is over, and only its last
// files are written.
void ignore_late_signals();

// The exit code is that of a run that was asked to stop, and can be resumed: no failure.
bool is_stop_code(int code);

// Says in one line that a stop came before the run could save, and what that means: "stopped by
// signal 2 (SIGINT) before the first iteration; nothing was lost". `iteration` is how far the
// training was.
std::string early_stop_text(int signal, int64_t iteration);

}  // namespace gantrain
