// SPDX-License-Identifier: Apache-2.0
#include "train/memory/counted_memory.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace gantrain {

namespace {

constexpr size_t kHeader = 64;  // bytes before each block; the first of them hold its size

std::mutex mutex;
int64_t now = 0, peak = 0, most = 0;

void release(void* data) {
  auto* block = static_cast<char*>(data) - kHeader;
  {
    const std::lock_guard lock(mutex);
    now -= static_cast<int64_t>(*reinterpret_cast<size_t*>(block));
  }
  std::free(block);
}

void check_room(int64_t bytes) {
  const std::lock_guard lock(mutex);
  TORCH_CHECK_WITH(OutOfMemoryError,
                   most == 0 || now + bytes <= most,
                   "CUDA out of memory. Tried to allocate ",
                   bytes,
                   " bytes.");
}

class Counting final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const at::Device cpu(at::kCPU);
    if (bytes == 0) return {nullptr, cpu};
    check_room(static_cast<int64_t>(bytes));
    void* block = nullptr;
    if (posix_memalign(&block, kHeader, bytes + kHeader) != 0) throw std::bad_alloc();
    *static_cast<size_t*>(block) = bytes;
    {
      const std::lock_guard lock(mutex);
      now += static_cast<int64_t>(bytes);
      peak = std::max(peak, now);
    }
    void* data = static_cast<char*>(block) + kHeader;
    return {data, data, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

CountedMemory::CountedMemory(int64_t usable) : usable_bytes(usable) {
  static auto* allocator = new Counting;  // tensors of static lifetime outlive main()
  c10::SetAllocator(c10::DeviceType::CPU, allocator, /*priority=*/2);
}

MemoryPeaks CountedMemory::peaks() const {
  const std::lock_guard lock(mutex);
  return {distorted ? distorted(peak) : peak, peak};
}

void CountedMemory::end_at(int64_t bytes) {
  const std::lock_guard lock(mutex);
  most = bytes;
}

void CountedMemory::restart() {
  const std::lock_guard lock(mutex);
  peak = now;
}

}  // namespace gantrain
