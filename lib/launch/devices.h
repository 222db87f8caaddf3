// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "launch/environment.h"
#include "launch/options.h"

namespace gantrain {

// GPUs that CUDA would show this process, found without a CUDA library: the driver's device files,
// less what CUDA_VISIBLE_DEVICES (numbers, UUIDs, MIG names; honoured, never rewritten) hides.
int64_t visible_gpus(const Env& env, const std::filesystem::path& dev = "/dev");

// cpu or cuda. Throws UserError(kEnvironment) if cuda is asked for and no GPU is visible, or if a
// launcher would start more ranks on this node than GPUs are visible.
DeviceKind resolve_device(DeviceKind wanted, const World& world, int64_t visible);

// Index among the visible GPUs for a rank: the only one, or the one of its local rank.
// Throws UserError(kEnvironment) with both numbers if there is none for it.
int64_t choose_device(int64_t visible, int64_t local_rank, int64_t local_world_size);

// --threads; else the user's OMP_NUM_THREADS; else cores of the affinity mask divided by the
// node's ranks, at least 1.
int64_t threads_per_rank(const LaunchOptions& options, const Env& env, int64_t local_world_size);

}  // namespace gantrain
