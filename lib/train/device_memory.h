// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

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

}  // namespace gantrain
