// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launch/environment.h"
#include "launch/options.h"
#include "launch/output.h"
#include "launch/port.h"
#include "launch/rank.h"

namespace gantrain {

// What one fork server and its ranks are made of.
struct Attempt {
  const World& world;
  const LaunchOptions& options;
  const std::string& config_json;
  const std::function<RankMain()>& load;
  RankStatusBoard& board;
  std::string master_addr;
  int64_t threads;
  int64_t number;         // 0, then 1.. after restarts
  sigset_t rank_mask;     // signals blocked in a rank
  int signal_descriptor;  // the launcher's own, closed in its children
};

struct ForkServer {
  pid_t pid = -1;
  UniqueFd answer;  // see parse_answer
};

// Forks the fork_server, which calls `load`, forks the ranks, answers and exits; its ranks then belong
// to this process, which must be a child subreaper. The listener goes to rank 0 alone; the pipes
// of the other ranks' output go to `output`.
ForkServer start_fork_server(const Attempt& attempt, Listener listener, Output& output);

// Pids of the ranks, or why there are none. Complete at the zero byte, not at the end of file: a
// rank that has not run yet still holds the pipe.
struct ForkServerAnswer {
  bool complete = false;
  std::vector<pid_t> pids;
  Exit code = Exit::kDone;
  std::string error;
};
ForkServerAnswer parse_answer(const std::string& text);

}  // namespace gantrain
