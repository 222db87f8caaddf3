// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "distributed/group.h"
#include "train/plan/plan.h"
#include "train/step/training_step.h"

namespace gantrain {

// The most memory that this process's tensors have had on a device, in bytes.
struct MemoryPeaks {
  int64_t allocated = 0;  // by tensors
  int64_t reserved = 0;   // with what was kept for later tensors
};

// The memory of one device as this process uses it. Nothing waits for the device but give_back().
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Since restart(), or since the process began.
  virtual MemoryPeaks peaks() const = 0;
  virtual void restart() = 0;
  // Returns the bytes that this process's tensors could have in all: what is free on the device now
  // and what the process has already.
  virtual int64_t usable() const = 0;
  // Gives memory that no tensor has back to the device.
  virtual void give_back() = 0;
};

// Returns the memory of a device with an allocator of LibTorch's own; null for a CPU.
std::unique_ptr<DeviceMemory> memory_of(c10::Device device);

// The driver takes back the memory of processes that were killed some time after their end. Returns
// when usable() has not grown for half a second, or after `most_seconds`. `sleep` sleeps for so
// many seconds.
void await_freed_memory(const DeviceMemory& memory,
                        double most_seconds,
                        const std::function<void(double)>& sleep);

// How much of the memory that tensors could have a micro-batch may need. The rest is for samples,
// metrics and gaps between blocks of memory.
constexpr double kUsedShare = 0.9;

// What is fitted into a device's memory.
struct FitRequest {
  Size resolution = {4, 4};  // of the pictures of the present stage
  int64_t images_seen = 0;   // at its begin
  int64_t kept = 0;          // the micro-batch that the run had in this stage before; 0: none
  int64_t later = 0;         // bytes that will be taken on the device once the run has begun
};

// Cuts the step's batch into the largest micro-batches that fit the memory of all ranks' devices,
// or keeps `kept` where that fits, and returns a line for the log. The need is measured: forward
// and backward passes of all phases for a few images and for up to twice as many (or half as many,
// where that is all that fits), a line through both, and once more at the size that it promises.
// Where that needs more, the next line is above what was measured: it may miss a size by little.
// A size with which the memory of any rank runs out counts as one that needs more than there is,
// unless phases have collectives of their own (dist.sync_bn): then it ends the run.
// All ranks call it together, between iterations. Throws UserError(kOutOfMemory) with the sizes
// where not even one image fits (of unequal shares: two).
std::string fit_micro_batch(TrainingStep& step,
                            Group& group,
                            DeviceMemory& memory,
                            const FitRequest& request);

}  // namespace gantrain
