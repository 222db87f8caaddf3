// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distributed/gradient_sync.h"

namespace gantrain {

// Dynamic mode has one reducer for the whole network. It is armed with the final loss just before
// the backward pass, so a recipe may call the network as often as it likes and through any member.
std::unique_ptr<GradientSync> make_dynamic_sync(const DistOptions& options,
                                                std::shared_ptr<Group> group,
                                                const std::string& player,
                                                std::vector<SyncPart> parts,
                                                SyncPromise promise);

// Wrapper mode has one reducer for each part with parameters. It is armed with the outputs of the
// part's forward passes, as DistributedDataParallel does it. At least one part must have
// parameters.
std::unique_ptr<GradientSync> make_wrapper_sync(const DistOptions& options,
                                                std::shared_ptr<Group> group,
                                                const std::string& player,
                                                std::vector<SyncPart> parts,
                                                SyncPromise promise);

}  // namespace gantrain
