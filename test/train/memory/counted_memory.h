// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "train/memory/device_memory.h"

namespace gantrain {

// The CPU's memory as if it were a device's: from the first object on, this process's tensors on
// the CPU are counted, byte by byte. `usable_bytes` is what a test says that there is.
class CountedMemory final : public DeviceMemory {
 public:
  explicit CountedMemory(int64_t usable_bytes = 0);

  MemoryPeaks peaks() const override;
  void restart() override;
  int64_t usable() const override { return usable_bytes; }
  void give_back() override { ++given_back; }

  int64_t usable_bytes;
  int64_t given_back = 0;  // calls
  // From now on tensors that would have more bytes than that in all throw as a GPU's do; 0: none.
  static void end_at(int64_t bytes);
  // What a peak counts as; none: as it is.
  std::function<int64_t(int64_t bytes)> distorted;
};

}  // namespace gantrain
