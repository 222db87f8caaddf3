// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "launch/environment.h"
#include "launch/options.h"

namespace gantrain {

// The number of GPUs that CUDA would show this process. It is found without a CUDA library: from
// the driver's device files, less what CUDA_VISIBLE_DEVICES hides. That variable may hold numbers,
// UUIDs or MIG names; it is read and never rewritten.
int64_t visible_gpus(const Env& env, const std::filesystem::path& dev = "/dev");

// Decides between kCpu and kCuda. Throws UserError(kEnvironment) if cuda is asked for and no GPU is
// visible, or if a launcher would start more ranks on this node than there are visible GPUs.
DeviceKind resolve_device(DeviceKind wanted, const World& world, int64_t visible);

// The index, among the visible GPUs, of the one that a rank computes on: the only one, or else the
// one whose index is the local rank. Throws UserError(kEnvironment) with both numbers if there is
// none for this rank.
int64_t choose_device(int64_t visible, const RankInfo& ranks);

// The number of threads of a rank: --threads; without it the user's OMP_NUM_THREADS; without that
// the cores of the affinity mask divided by the ranks of this node, at least 1.
int64_t threads_per_rank(const LaunchOptions& options, const Env& env, int64_t local_world_size);

}  // namespace gantrain
