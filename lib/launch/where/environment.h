// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  Role role = Role::kLauncher;
  // Who started this process: "local", "torchrun", "slurm", "mpi", "kubernetes".
  std::string source = "local";
  // In a launcher ranks.rank and ranks.local_rank are -1.
  RankInfo ranks{.rank = -1, .local_rank = -1};
  Endpoint master;  // port 0: the kernel chooses one (launcher of one node)
  // A host that is used if master.host does not resolve; may be empty.
  std::string master_fallback = {};
  std::optional<int64_t> least_nodes = {};  // PET_NNODES=MIN:MAX says so, and MAX is ranks.nodes
  // True where the other launcher serves the store; then rank 0 is a client of it too.
  bool store_is_served = false;
};

// Finds out which ranks there are to be from what the user said, the environment and the number of
// visible GPUs; a pure function of these. The first of these that is there decides: torchrun's
// variables, those of an mpirun with several tasks, a step of srun, the variables of Open MPI or
// PMI, those of a pod of a PyTorchJob (pod_of()); otherwise this process is a launcher for this
// machine. `flags_given` is true if
// nproc, nnodes, node_rank or master_* stand on the command line. Throws UserError with the way
// out: kUsage if the flags contradict these or each other, kEnvironment if the variables do, or
// some are missing.
World detect_world(const LaunchOptions& options,
                   bool flags_given,
                   const Env& env,
                   int64_t visible_gpus);

// What rank 0 warns of where --max-restarts was given to ranks that another launcher has started,
// and that gantrain cannot start again; "" for other ranks, and where there is nothing to say.
std::string no_restarts_text(const World& world, int64_t restarts);

// An IPv6 address as HOST:PORT has it, "[::1]", without the brackets; any other host as it is.
std::string without_brackets(const std::string& host);

// The smallest rank of a launcher's node. Each node of such a world has as many ranks as the
// others.
int64_t first_rank(const World& world);

// This process as a worker, as the variables of another launcher tell it, to whom each task is one
// rank; an empty master.host or port 0: they do not tell it. Each returns nothing if this process
// was not started that way, and throws UserError(kEnvironment) if some of the variables that belong
// together are missing, are no numbers or contradict each other.
std::optional<World> torchrun_task(const Env& env);
std::optional<World> slurm_task(const Env& env);  // of a step of srun, not the batch script
std::optional<World> mpi_task(const Env& env);    // of Open MPI's mpirun, Hydra (MPICH, Intel MPI)

// The value of a variable, or "" if there is none.
std::string variable(const Env& env, const std::string& name);
// The value of a variable as a whole number; nothing if the variable is absent or empty. Throws
// UserError(kEnvironment) if it is something else.
std::optional<int64_t> number_in(const Env& env, const std::string& name);

// The names of the hosts of a Slurm node list, in Slurm's order. "rack[1-2]n[08-10],login" means
// all combinations of its brackets, of which the last one changes fastest; numbers keep the zeros
// in front that the low end of their range has. A host that stands twice in the list comes twice.
// Throws UserError(kEnvironment) if the text is not such a list or means more than 65536 hosts.
std::vector<std::string> parse_nodelist(std::string_view text);

// The number of tasks of each node, read from SLURM_STEP_TASKS_PER_NODE: "2(x2),1" is {2, 2, 1}.
// Throws UserError(kEnvironment) if the text is not such a list.
std::vector<int64_t> parse_tasks_per_node(std::string_view text);

// What the variables of a PyTorchJob or TrainJob of Kubernetes tell a pod, which is a node of the
// run and whose ranks this process starts.
struct Pod {
  int64_t nodes = 1;
  std::optional<int64_t> least_nodes;  // of a range
  int64_t node_rank = 0;
  std::optional<int64_t> ranks;  // that the pod starts; none: one per visible GPU, else 1
  Endpoint master{.host = ""};   // an empty host or port 0: the variables do not tell it
};

// Reads PET_NNODES, PET_NODE_RANK, PET_NPROC_PER_NODE, PET_MASTER_ADDR, PET_MASTER_PORT and
// PET_RDZV_ENDPOINT, which mean to a pod what torchrun's flags of these names do; without them RANK
// and WORLD_SIZE, which in a PyTorchJob are the number of the pod and how many there are; and
// MASTER_ADDR and MASTER_PORT. Returns nothing if this is no pod of a job: there is LOCAL_RANK or
// another variable of a single rank. Throws UserError(kEnvironment) that names the variable if one
// is missing, is no number, or contradicts the others.
std::optional<Pod> pod_of(const Env& env);

// When a run stops by itself because the time is up that a batch system has given it.
struct AllocationStop {
  std::optional<double> after;  // seconds from now until the run saves and stops; none: never
  std::string line;  // one line for the user that says when and why; "" if nothing to say
};

// Decides it from launch.time_margin and SLURM_JOB_END_TIME, which Slurm sets to the seconds since
// 1970 at which it will end the job; `now` counts the same way. Without that variable a run goes on
// until a signal stops it. The margin "auto" is five minutes, or a tenth of the time that is left
// where this is less, so that a short allocation trains too. Throws UserError(kEnvironment) if the
// variable is no number from 0. A pure function.
AllocationStop allocation_stop(const LaunchOptions& options, const Env& env, double now);

}  // namespace gantrain
