// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "launch/options.h"
#include "util/rank_info.h"

namespace gantrain {

using Env = std::map<std::string, std::string>;

Env current_environment();

// The ranks of a run, and the part that this process plays among them.
struct World {
  enum class Role {
    kLauncher,  // this process starts the ranks of its node and is none itself
    kWorker     // this process is a rank, which another launcher (torchrun, srun, mpirun) started
  };
  static constexpr int64_t kNoRank = -1;

  Role role = Role::kLauncher;
  // Who started this process: "local", "torchrun", "slurm", "mpi", "kubernetes".
  std::string source = "local";
  // In a launcher ranks.rank and ranks.local_rank are kNoRank.
  RankInfo ranks{.rank = kNoRank, .local_rank = kNoRank};
  Endpoint master;              // port 0: the kernel chooses one (launcher of one node)
  std::string master_fallback;  // a host that is used if master.host does not resolve; may be empty
  // True where the other launcher serves the store; then rank 0 is a client of it too.
  bool store_is_served = false;
};

// Finds out which ranks there are to be from what the user said, the environment and the number of
// visible GPUs; a pure function of these. The first of these that is there decides: torchrun's
// variables, a step of srun, the variables of Open MPI or PMI, those of a pod of a PyTorchJob
// (pod.h); otherwise this process is a launcher for this machine. `flags_given` is true if nproc,
// nnodes, node_rank or master_* stand on the command line. Throws UserError with the way out:
// kUsage if the flags contradict these or each other, kEnvironment if the variables do, or some are
// missing.
World detect_world(const LaunchOptions& options,
                   bool flags_given,
                   const Env& env,
                   int64_t visible_gpus);

// The smallest rank of a launcher's node. Each node of such a world has as many ranks as the
// others.
int64_t first_rank(const World& world);

}  // namespace gantrain
