// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/safetensors.h"
#include "distributed/group.h"

namespace gantrain {

// Compares the bits of all tensors over ranks by checksums in one small all-reduce. If they differ,
// throws UserError(kInternal) on every rank, which names the first tensor, by how much it differs
// from rank 0's, and the likely cause. `with_buffers` false: only what gradients move is compared,
// not "running_..." statistics, which ranks may then have of their own.
void check_equal(Group& group, const NamedTensors& tensors, bool with_buffers);

}  // namespace gantrain
