// SPDX-License-Identifier: Apache-2.0
#include "train/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace gantrain {

namespace {

// In LibTorch's own terms for any accelerator: the CUDA side need not be linked.
class AllocatorMemory final : public DeviceMemory {
 public:
  explicit AllocatorMemory(c10::Device device)
      : allocator_(*c10::getDeviceAllocator(device.type())), index_(device.index()) {}

  MemoryPeaks peaks() const override {
    const auto stats = allocator_.getDeviceStats(index_);
    return {all_of(stats.allocated_bytes).peak, all_of(stats.reserved_bytes).peak};
  }
  void restart() override { allocator_.resetPeakStats(index_); }
  int64_t usable() const override {
    const auto free = static_cast<int64_t>(allocator_.getMemoryInfo(index_).first);
    return free + all_of(allocator_.getDeviceStats(index_).reserved_bytes).current;
  }
  void give_back() override { allocator_.emptyCache(); }

 private:
  static c10::CachingAllocator::Stat all_of(const c10::CachingAllocator::StatArray& stats) {
    return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  }

  c10::DeviceAllocator& allocator_;
  c10::DeviceIndex index_;
};

}  // namespace

std::unique_ptr<DeviceMemory> memory_of(c10::Device device) {
  if (device.is_cpu()) return nullptr;
  return std::make_unique<AllocatorMemory>(device);
}

}  // namespace gantrain
