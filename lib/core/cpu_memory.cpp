// SPDX-License-Identifier: Apache-2.0
#include "core/cpu_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "util/system.h"

namespace gantrain {

namespace {

constexpr int64_t kHuge = 2 << 20;  // bytes of a huge page on x86-64 and most of arm64

int64_t round_up(int64_t number, int64_t unit) { return (number + unit - 1) / unit * unit; }

// Maps a block whose address is a multiple of kHuge. The kernel then backs its whole huge pages by
// one fault each instead of 512, where transparent huge pages are not forbidden.
void* map_block(int64_t bytes) {
  const auto wide = static_cast<size_t>(bytes + kHuge);
  void* mapped = mmap(nullptr, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const auto block = static_cast<uintptr_t>(round_up(static_cast<int64_t>(begin), kHuge));
  const uintptr_t end = block + static_cast<uintptr_t>(bytes);
  if (block > begin) munmap(mapped, block - begin);
  if (begin + wide > end) munmap(reinterpret_cast<void*>(end), begin + wide - end);
  auto* result = reinterpret_cast<void*>(block);
  if (bytes >= kHuge) madvise(result, static_cast<size_t>(bytes / kHuge * kHuge), MADV_HUGEPAGE);
  return result;
}

void unmap_block(void* block, int64_t bytes) { munmap(block, static_cast<size_t>(bytes)); }

BlockCache* process_cache = nullptr;
SmallBlocks* process_blocks = nullptr;

// Blocks of the cache are multiples of kHuge, so that nearly all others are told apart without a
// lock; all others are small ones.
void free_cpu(void* data) {
  if (data == nullptr) return;  // of no bytes
  if (reinterpret_cast<uintptr_t>(data) % kHuge == 0 && process_cache->release(data)) return;
  process_blocks->release(data);
}

class CachingCpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_cpu, c10::Device(c10::DeviceType::CPU)};
    const auto wanted = static_cast<int64_t>(bytes);
    const bool small = wanted < BlockCache::kSmallest;
    void* data = small ? process_blocks->allocate(wanted) : process_cache->allocate(wanted);
    if (data == nullptr) {
      TORCH_CHECK_WITH(OutOfMemoryError,
                       false,
                       "out of host memory: a tensor of ",
                       bytes,
                       " bytes cannot be allocated");
    }
    return {data, data, &free_cpu, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_cpu; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

// What stands before each small block.
constexpr int64_t kAlignment = 64;  // bytes, as LibTorch's own
struct alignas(kAlignment) SmallHeader {
  int64_t number, bytes;  // of its size class
};

// Eight sizes from each power of two to the next: the number of the smallest one that holds so many
// bytes, counted from `least`, a power of two of at least 8, and its bytes.
struct SizeClass {
  int64_t number, bytes;
};

SizeClass size_class_of(int64_t bytes, int64_t least) {
  constexpr int64_t kParts = 8;
  bytes = std::max(bytes, least);
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  const int64_t part = below / kParts, parts = (bytes - below + part - 1) / part;
  const int64_t powers = std::bit_width(static_cast<uint64_t>(below / least)) - 1;
  return {powers * kParts + parts, below + parts * part};
}

}  // namespace

BlockCache::BlockCache(std::optional<int64_t> limit, std::function<double()> seconds)
    : limit_(limit),
      seconds_(seconds ? std::move(seconds) : [] { return monotonic_seconds(); }),
      window_began_(seconds_()) {}

BlockCache::~BlockCache() { clear(); }

int64_t BlockCache::size_class(int64_t bytes) { return size_class_of(bytes, kSmallest).bytes; }

// The smallest kept block that is large enough, and not more than twice as large; among equal ones
// the newest, whose content is likeliest to be in the processor's caches. With exact fits alone,
// StyleGAN2's step went to the system for a sixth of its bytes, because its phases have different
// sizes.
void* BlockCache::take_kept(int64_t size) {
  const auto fit = kept_.lower_bound(size);
  if (fit == kept_.end() || fit->first > 2 * size) return nullptr;
  const auto newest = std::prev(kept_.upper_bound(fit->first));
  void* block = newest->second.block;
  give_out(block, newest->first);
  use_.kept -= newest->first;
  kept_.erase(newest);
  ++use_.reused;
  return block;
}

void BlockCache::give_out(void* block, int64_t size) {
  sizes_[block] = size;
  use_.in_use += size;
  use_.peak = std::max(use_.peak, use_.in_use);
}

void* BlockCache::allocate(int64_t bytes) {
  const int64_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  if (void* block = take_kept(size)) return block;
  shrink_to(bound(use_.in_use + size) - use_.in_use - size);
  void* block = map_block(size);
  if (block == nullptr && !kept_.empty()) {
    shrink_to(0);
    block = map_block(size);
  }
  if (block == nullptr) return nullptr;
  give_out(block, size);
  use_.peak_held = std::max(use_.peak_held, use_.in_use + use_.kept);
  ++use_.fresh;
  return block;
}

bool BlockCache::release(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(block);
  if (found == sizes_.end()) return false;
  const int64_t size = found->second;
  sizes_.erase(found);
  const int64_t held = bound(use_.in_use);
  use_.in_use -= size;
  kept_.emplace(size, Kept{block, releases_++});
  use_.kept += size;
  shrink_to(held - use_.in_use);
  return true;
}

// Returns the most that may be held where so much is in use.
int64_t BlockCache::bound(int64_t in_use) {
  const double now = seconds_();
  if (now - window_began_ >= kWindow) {
    last_peak_ = now - window_began_ < 2 * kWindow ? window_peak_ : 0;
    window_peak_ = 0;
    window_began_ = now;
  }
  window_peak_ = std::max(window_peak_, in_use);
  const int64_t peak = std::max(window_peak_, last_peak_);
  return peak + peak / 4;
}

void BlockCache::shrink_to(int64_t kept) {
  if (limit_) kept = std::min(kept, *limit_);
  while (use_.kept > std::max<int64_t>(kept, 0)) {
    const auto oldest =
        std::min_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
          return a.second.number < b.second.number;
        });
    unmap_block(oldest->second.block, oldest->first);
    use_.kept -= oldest->first;
    kept_.erase(oldest);
  }
}

void BlockCache::clear() {
  const std::lock_guard lock(mutex_);
  shrink_to(0);
}

CpuMemoryUse BlockCache::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

void BlockCache::begin_peak() {
  const std::lock_guard lock(mutex_);
  use_.peak = use_.in_use;
}

SmallBlocks::~SmallBlocks() {
  for (const std::vector<void*>& blocks : free_) {
    for (void* block : blocks) std::free(static_cast<SmallHeader*>(block) - 1);
  }
}

void* SmallBlocks::allocate(int64_t bytes) {
  const SizeClass wanted = size_class_of(bytes, kAlignment);
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& free = free_[static_cast<size_t>(wanted.number)];
    if (!free.empty()) {
      void* block = free.back();
      free.pop_back();
      kept_ -= wanted.bytes;
      return block;
    }
  }
  void* memory = nullptr;
  const auto size = sizeof(SmallHeader) + static_cast<size_t>(wanted.bytes);
  if (posix_memalign(&memory, kAlignment, size) != 0) return nullptr;
  return new (memory) SmallHeader{wanted.number, wanted.bytes} + 1;
}

void SmallBlocks::release(void* block) {
  SmallHeader* header = static_cast<SmallHeader*>(block) - 1;
  const int64_t bytes = header->bytes;
  {
    const std::lock_guard lock(mutex_);
    if (kept_ + bytes <= limit_) {
      free_[static_cast<size_t>(header->number)].push_back(block);
      kept_ += bytes;
      return;
    }
  }
  std::free(header);
}

int64_t SmallBlocks::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

void keep_cpu_memory(std::optional<int64_t> limit_mb) {
  if (process_cache != nullptr || limit_mb == 0) return;
  constexpr int64_t kMB = 1'000'000, kMostSmall = 64 * kMB;
  // malloc()'s blocks too (oneDNN's work space): it gives the end of its heap back to the system
  // only from so much on, and takes no block of this size from the system each time.
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  // Never destroyed: tensors of static lifetime are freed after main().
  process_cache = new BlockCache(limit_mb ? std::optional<int64_t>(*limit_mb * kMB) : std::nullopt);
  process_blocks = new SmallBlocks(limit_mb ? std::min(*limit_mb * kMB, kMostSmall) : kMostSmall);
  static auto* allocator = new CachingCpuAllocator;
  c10::SetAllocator(c10::DeviceType::CPU, allocator, /*priority=*/1);
}

std::optional<CpuMemoryUse> cpu_memory_use() {
  if (process_cache == nullptr) return std::nullopt;
  return process_cache->use();
}

void begin_cpu_peak() {
  if (process_cache != nullptr) process_cache->begin_peak();
}

std::string cpu_memory_text() {
  const std::optional<CpuMemoryUse> use = cpu_memory_use();
  if (!use) return "";
  return fmt::format("{:.2f} GB of tensors at most, {:.2f} GB with freed ones kept for reuse",
                     static_cast<double>(use->peak) / 1e9,
                     static_cast<double>(use->peak_held) / 1e9);
}

}  // namespace gantrain
