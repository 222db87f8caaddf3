// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace gantrain {

// How far a rank has come, as the launcher sees it.
struct RankProgress {
  bool stopped = false;      // by SIGSTOP, a terminal or a debugger
  int64_t collectives = 0;   // that it has entered, the same ones in the same order on every rank
  int64_t iteration = 0;     // that it has finished
  int64_t heartbeat_ns = 0;  // its last sign of life
};

// True if `a` has certainly come less far than `b`: it is stopped, or it has not entered a
// collective in which `b` is or was. Signs of life do not decide this. A rank that waits in a
// collective gives none either, so between ranks of one phase their order is chance.
bool is_behind(const RankProgress& a, const RankProgress& b);

// The index of the rank that has come least far. Where is_behind() finds no difference, it is the
// one whose last sign of life is the oldest. `ranks` must not be empty.
size_t furthest_behind(const std::vector<RankProgress>& ranks);

// True if a signal has stopped the process and nothing has continued it.
bool is_stopped(pid_t pid);

}  // namespace gantrain
