// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "launch/options.h"

namespace gantrain {

using Env = std::map<std::string, std::string>;

Env current_environment();

// Who takes part, and as what this process does.
struct World {
  enum class Role { kLauncher, kWorker };  // starts ranks; is a rank that somebody else started
  Role role = Role::kLauncher;
  std::string source = "local";  // "local", "torchrun", "slurm", "mpi"
  int64_t world_size = 1;
  int64_t local_world_size = 1;
  int64_t nnodes = 1;
  int64_t node_rank = 0;
  int64_t rank = -1;        // -1 in a launcher
  int64_t local_rank = -1;  // -1 in a launcher
  std::string master_addr = "127.0.0.1";
  std::string master_fallback;   // taken when master_addr does not resolve; may be empty
  int64_t master_port = 0;       // 0: the kernel chooses (launcher of one node)
  bool store_is_served = false;  // by the other launcher: rank 0 is a client of the store too
};

// A pure function of what the user said, the environment and the number of visible GPUs.
// `flags_given`: nproc, nnodes, node_rank or master_* stand on the command line.
// Order: torchrun's variables, an srun step, Open MPI and PMI, else a launcher on this machine.
// Throws UserError(kUsage) for contradictions, with the way out.
World detect_world(const LaunchOptions& options,
                   bool flags_given,
                   const Env& env,
                   int64_t visible_gpus);

}  // namespace gantrain
