// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "launch/environment.h"
#include "launch/options.h"
#include "launch/rank.h"

namespace gantrain {

// Called in the fork server (or in a worker's own process): loads the trainer without starting a
// thread and returns its entry, or throws UserError, which is printed once.
using LoadTrainer = std::function<RankMain()>;
// The line that says how to go on with the run in that folder ("" if none was made yet), without a
// newline; "" if there is none.
using ResumeHint = std::function<std::string(const std::string& run_folder)>;

// How a world ended.
struct WorldEnd {
  int code = 0;
  std::string run_folder;  // "" if it ended before there was one
};

// Launcher: starts the ranks of this node, waits until all have ended and returns the world's exit
// code. The failure report is the last thing it writes to standard error. No process is left below
// this one when it returns, and none survives this process, however that dies.
// Throws UserError for what is wrong before anything is started: port in use, too few GPUs.
// Must be called from the main thread of a process without other threads and children.
WorldEnd launch(const World& world,
                const LaunchOptions& options,
                const std::string& config_json,
                const LoadTrainer& load,
                const ResumeHint& resume_hint);

// Worker of torchrun, srun or mpirun: is the rank, in this process. Returns its exit code, after a
// report on standard error if it failed. Throws UserError for what is wrong before it starts.
WorldEnd run_worker(const World& world,
                    const LaunchOptions& options,
                    const std::string& config_json,
                    const LoadTrainer& load,
                    const ResumeHint& resume_hint);

}  // namespace gantrain
