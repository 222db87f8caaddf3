// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tensors.h"
#include "distributed/group.h"

namespace gantrain {

// Checks that all ranks hold the same bits in all tensors, by comparing checksums in one small
// all-reduce. If they do not, it throws UserError(kInternal) on every rank. The message names the
// first tensor that differs, by how much it differs from rank 0's, and the likely cause. Without
// `with_running_statistics`, tensors of the kind kRunningStatistic are not compared, because ranks
// may then have statistics of their own.
void check_equal(Group& group, const StateTensors& tensors, bool with_running_statistics);

}  // namespace gantrain
