// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/local/rank.h"
#include "launch/where/network.h"

namespace gantrain {

// In a new child of `parent`: from now on this process is killed when its parent ends, also where
// that has ended already.
void die_with(pid_t parent);

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

// In a rank of a training, before it has threads: a name server that does not answer costs it 2 s
// at most, unless RES_OPTIONS says otherwise. c10d asks for the name of each address that a store's
// client connects to, for its messages alone, and where /etc/hosts does not know "::ffff:127.0.0.1"
// that is a question to a server. Each one that was lost cost 5 s (seen: one in 25).
void ask_name_servers_briefly();

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

// The processes that this one sees, by number.
std::vector<std::string> all_processes();

// /proc/PID/NAME; "" if the process is gone or of another user.
std::string proc_file(const std::string& pid, const char* name);

// True if a signal has stopped the process and nothing has continued it.
bool is_stopped(pid_t pid);

// Whether a process has been stopped for longer than so many seconds, which count from `from` on at
// the earliest (monotonic seconds). `since` is kept by the caller between calls.
bool stopped_too_long(pid_t pid, double& since, double from, double allowed);

// Remembers the processes below this one as others' own: the program that became this one by exec,
// such as a shell that executes its last command, has started them. To be called before this one
// has children.
void note_strangers();

// Sends SIGKILL to every process below this one but those and reaps them, until none is left or
// `seconds` are over. Returns those that are left then: they are stuck in a system call. The
// calling process must be a child subreaper; otherwise it does not see the processes that its dead
// children left behind.
std::vector<pid_t> kill_process_tree(double seconds);

// Starts a process below this one that does nothing until this one dies, however it dies, and then
// does `work` and ends. Before that it does `look`, if there is one, four times a second. It is
// called gantrain-guard. Its standard streams are /dev/null and no other file is open in it, it
// takes no signals, and those who look at it from outside find no environment. Where no process can
// be started there is none. To be called from the main thread of a process that has no others.
void start_survivor(const std::function<void()>& work, const std::function<void()>& look = {});

// Starts a process below this one that does nothing until this one dies, and then kills what is
// left of the run. Ranks die with their launcher by themselves, but not what they have started and
// let go, such as a daemon of a data loader, which a launcher that is killed cannot end any more.
// Such a process is known by the memory of `board`, which it has from its rank, or by a variable of
// the environment, if it runs another program. While this process lives, it ends the guard as any
// other process below it (kill_process_tree). To be called before the ranks are forked. Where no
// process can be started there is no guard. `afterwards` is called when all that was left is gone,
// in a process that has no files of this one (see start_survivor()).
void start_orphan_guard(const RankStatusBoard& board, const std::function<void()>& afterwards = {});

}  // namespace gantrain
