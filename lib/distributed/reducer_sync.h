// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distributed/gradient_sync.h"

namespace gantrain {

// dynamic: one reducer for the network, armed on the final loss just before backward; networks are
// called raw, as often and through whichever member a recipe likes.
std::unique_ptr<GradientSync> make_dynamic_sync(const DistOptions& options,
                                                std::shared_ptr<Group> group,
                                                const std::string& player,
                                                std::vector<SyncPart> parts,
                                                SyncPromise promise);

// wrapper: one reducer for each part, armed by the part's own forward, as DistributedDataParallel
// does it. `parts` have parameters.
std::unique_ptr<GradientSync> make_wrapper_sync(const DistOptions& options,
                                                std::shared_ptr<Group> group,
                                                const std::string& player,
                                                std::vector<SyncPart> parts,
                                                SyncPromise promise);

}  // namespace gantrain
