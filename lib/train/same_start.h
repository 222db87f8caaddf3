// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/dataset.h"
#include "distributed/group.h"
#include "train/callbacks.h"

namespace gantrain {

// Compares this rank's configuration and data with rank 0's before anything is trained. Throws
// UserError(kEnvironment) on every rank where they differ, with the key, both values and the node.
// Keys that say only where and how a rank works (threads, loading, folders, the paths of the data
// and of its labels) may differ; the data behind these paths may not. All ranks call it together.
void check_same_start(const TrainSetup& setup, const Dataset& dataset, Group& group);

}  // namespace gantrain
