// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <vector>

namespace gantrain {

// Living processes (zombies are not) below this one, children and their children.
std::vector<pid_t> living_process_tree();

// Kills (SIGKILL) and reaps everything below this process, until nothing is left or `seconds` are
// over; returns who is still there then (in an uninterruptible system call). The process must be
// a child subreaper, else it does not see what its dead children left behind.
std::vector<pid_t> kill_process_tree(double seconds);

}  // namespace gantrain
