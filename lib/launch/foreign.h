// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/environment.h"

namespace gantrain {

// This process's place among those that another launcher started, as its variables tell it.
struct Tasks {
  std::string source;  // "torchrun", "slurm", "mpi"
  int64_t rank = 0;
  int64_t size = 1;
  int64_t local_rank = 0;
  int64_t local_size = 1;
  int64_t nnodes = 1;
  int64_t node_rank = 0;
  std::string master_addr;  // empty: not told
  std::string master_fallback;
  int64_t master_port = 0;  // 0: not told
  bool store_is_served = false;
};

// Nothing if the process was not started that way; UserError(kEnvironment) if variables that
// belong together are missing or no numbers.
std::optional<Tasks> torchrun_tasks(const Env& env);
std::optional<Tasks> slurm_tasks(const Env& env);  // a step of srun, not the batch script
std::optional<Tasks> mpi_tasks(const Env& env);    // Open MPI's mpirun, Hydra (MPICH, Intel MPI)

// Value of a variable; empty and absent are the same.
std::string variable(const Env& env, const std::string& name);
// A whole number; nothing if absent. Throws UserError(kEnvironment) if it is something else.
std::optional<int64_t> number_in(const Env& env, const std::string& name);

}  // namespace gantrain
