// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/environment.h"

namespace gantrain {

// What the variables of another launcher tell about the processes that it started.
struct Tasks {
  std::string source;            // "torchrun", "slurm", "mpi"
  RankInfo place;                // of this process, where each task counts as one rank
  Endpoint master{.host = ""};   // an empty host or port 0: the variables do not tell it
  std::string master_fallback;   // as in World
  bool store_is_served = false;  // as in World
};

// Each returns nothing if this process was not started that way, and throws UserError(kEnvironment)
// if some of the variables that belong together are missing, are no numbers or contradict each
// other.
std::optional<Tasks> torchrun_tasks(const Env& env);
std::optional<Tasks> slurm_tasks(const Env& env);  // a step of srun, not the batch script
std::optional<Tasks> mpi_tasks(const Env& env);    // Open MPI's mpirun, Hydra (MPICH, Intel MPI)

// The value of a variable, or "" if there is none.
std::string variable(const Env& env, const std::string& name);
// The value of a variable as a whole number; nothing if the variable is absent or empty. Throws
// UserError(kEnvironment) if it is something else.
std::optional<int64_t> number_in(const Env& env, const std::string& name);

}  // namespace gantrain
