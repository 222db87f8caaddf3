// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "launch/environment.h"
#include "launch/gpu_driver.h"
#include "launch/options.h"

namespace gantrain {

// The GPUs that CUDA would show this process.
struct VisibleGpus {
  int64_t count = 0;
  std::string note;       // why they are fewer than the machine has, or than were asked for; or ""
  bool mistaken = false;  // none is visible, though GPUs are here and nobody chose to hide them
};

// Finds them without a CUDA library: the driver's GPUs, less what CUDA_VISIBLE_DEVICES hides. That
// variable is read as CUDA reads it and never rewritten: numbers from 0, or UUIDs or their
// beginnings, or names of MIG instances; the first entry that names no device ends the list, and
// CUDA shows no device where one is named twice. Of MIG instances CUDA shows a process one, and no
// whole GPU beside it.
VisibleGpus visible_gpus(const Env& env, const GpuDriver& driver);

// What decides between a CPU and the GPUs.
struct GpuOutlook {
  VisibleGpus visible;
  std::string driver;         // its version; "" where it is not known
  CudaVersion compatibility;  // cuda_of_driver_library(), asked for where the driver is too old
  bool cuda_library = true;   // whether libgantrain_cuda.so was built
};

// Decides between kCpu and kCuda; a pure function. Throws UserError(kEnvironment), with the reason
// and the way out, if cuda is asked for and no GPU is visible, and if GPUs are visible which cannot
// be used: then only a user who asks for it gets a CPU.
DeviceKind decide_device(DeviceKind wanted, const GpuOutlook& outlook);

// Throws UserError(kEnvironment) if a launcher would start more ranks on this node than there are
// visible GPUs, or if this worker has none to compute on.
void check_ranks_have_gpus(const World& world, const VisibleGpus& visible);

// The index, among the visible GPUs, of the one that a rank computes on: the only one, or else the
// one whose index is the local rank. Throws UserError(kEnvironment) with both numbers if there is
// none for this rank.
int64_t choose_device(int64_t visible, const RankInfo& ranks);

// The number of threads of a rank: --threads; without it the user's OMP_NUM_THREADS; without that
// the cores of the affinity mask divided by the ranks of this node, at least 1.
int64_t threads_per_rank(const LaunchOptions& options, const Env& env, int64_t local_world_size);

}  // namespace gantrain
