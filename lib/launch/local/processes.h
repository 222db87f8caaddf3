// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "launch/local/rank.h"

namespace gantrain {

// The processes that this one sees, by number.
std::vector<std::string> all_processes();

// /proc/PID/NAME; "" if the process is gone or of another user.
std::string proc_file(const std::string& pid, const char* name);

// The living processes below this one: its children, their children and so on. Zombies do not
// count as living.
std::vector<pid_t> living_process_tree();

// True if a signal has stopped the process and nothing has continued it.
bool is_stopped(pid_t pid);

// Sends SIGKILL to every process below this one and reaps them, until none is left or `seconds` are
// over. Returns those that are left then: they are stuck in a system call. The calling process must
// be a child subreaper; otherwise it does not see the processes that its dead children left behind.
std::vector<pid_t> kill_process_tree(double seconds);

// Starts a process below this one that does nothing until this one dies, however it dies, and then
// does `work` and ends. It is called gantrain-guard. Its standard streams are /dev/null and no
// other file is open in it, it takes no signals, and those who look at it from outside find no
// environment. Where no process can be started there is none. To be called from the main thread of
// a process that has no others.
void start_survivor(const std::function<void()>& work);

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
