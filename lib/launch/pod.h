// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "launch/environment.h"

namespace gantrain {

// What the variables of a PyTorchJob or TrainJob of Kubernetes tell a pod, which is a node of the
// run and whose ranks this process starts.
struct Pod {
  int64_t nodes = 1;
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

}  // namespace gantrain
