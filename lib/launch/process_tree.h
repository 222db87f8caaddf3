// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <vector>

namespace gantrain {

// The living processes below this one: its children, their children and so on. Zombies do not
// count as living.
std::vector<pid_t> living_process_tree();

// Sends SIGKILL to every process below this one and reaps them, until none is left or `seconds` are
// over. Returns those that are left then: they are stuck in a system call. The calling process must
// be a child subreaper; otherwise it does not see the processes that its dead children left behind.
std::vector<pid_t> kill_process_tree(double seconds);

}  // namespace gantrain
