// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace gantrain {

// What a BlockCache holds, in bytes.
struct CpuMemoryUse {
  int64_t in_use = 0;     // of blocks that were given out
  int64_t kept = 0;       // of freed blocks that wait for reuse
  int64_t peak = 0;       // largest in_use since begin_peak(), or ever
  int64_t peak_held = 0;  // largest in_use + kept that there ever was
  int64_t fresh = 0;      // number of blocks that came from the system
  int64_t reused = 0;     // number of blocks that were kept ones
};

// Large blocks of memory whose freed ones are kept for reuse: fresh pages, zeroed at the first
// touch, cost ten times as much as used ones. Any thread may free what another one allocated.
// in_use + kept is at most a quarter more than what was largest in use over the last one to two
// minutes, and kept at most `limit`; blocks that waited longest go back to the system first.
class BlockCache {
 public:
  static constexpr int64_t kSmallest = 1 << 20;  // bytes; smaller blocks are not its business
  static constexpr int64_t kWindow = 60;         // seconds

  // `limit` is in bytes; none: only a quarter more than was in use. `seconds` is a clock.
  explicit BlockCache(std::optional<int64_t> limit = {}, std::function<double()> seconds = {});
  ~BlockCache();

  // Returns a block of at least so many bytes, 2 MiB-aligned, with any content; null where the
  // system has none. `bytes` is at least 1.
  void* allocate(int64_t bytes);
  // Takes a block back. Returns false, and does nothing, if allocate() did not give it out.
  bool release(void* block);
  // Gives all kept blocks back to the system.
  void clear();
  CpuMemoryUse use() const;
  // From now on use().peak is the largest in_use after this call.
  void begin_peak();

  // Bytes of a fresh block for a request: at most an eighth more. A kept one is at most twice that.
  static int64_t size_class(int64_t bytes);

 private:
  struct Kept {
    void* block;
    int64_t number;  // of the release; smaller: longer ago
  };

  void* take_kept(int64_t size);
  void give_out(void* block, int64_t size);
  int64_t bound(int64_t in_use);
  void shrink_to(int64_t kept);

  std::optional<int64_t> limit_;
  std::function<double()> seconds_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, int64_t> sizes_;  // of blocks in use
  std::multimap<int64_t, Kept> kept_;         // by size
  CpuMemoryUse use_;
  int64_t releases_ = 0;
  // The largest in_use of the present window and of the one before it.
  int64_t window_peak_ = 0, last_peak_ = 0;
  double window_began_;
};

// Blocks of less than 1 MiB, 64-byte-aligned, whose freed ones are kept for reuse by size, eight
// sizes from each power of two to the next: a step of a small network has thousands of them, and
// malloc() spends a twentieth of its time on splitting and joining them. Any thread may free what
// another one allocated. At most `limit` bytes are kept.
class SmallBlocks {
 public:
  explicit SmallBlocks(int64_t limit) : limit_(limit) {}
  ~SmallBlocks();
  SmallBlocks(const SmallBlocks&) = delete;
  SmallBlocks& operator=(const SmallBlocks&) = delete;

  // Returns a block of at least so many bytes (1 to BlockCache::kSmallest), with any content; null
  // where the system has none.
  void* allocate(int64_t bytes);
  // Takes back what allocate() returned.
  void release(void* block);
  int64_t kept() const;  // bytes

 private:
  static constexpr int64_t kClasses = 128;

  const int64_t limit_;
  mutable std::mutex mutex_;
  std::array<std::vector<void*>, kClasses> free_;
  int64_t kept_ = 0;
};

// From now on LibTorch's CPU tensors of 1 MiB and more come from one BlockCache of this process,
// smaller ones from its SmallBlocks. To be called before the process computes and has threads;
// further calls do nothing. `limit_mb` bounds what is kept, in MB (10^6 bytes); 0 leaves LibTorch's
// allocator as it is.
void keep_cpu_memory(std::optional<int64_t> limit_mb = {});

// Returns the use of that cache; nothing before keep_cpu_memory().
std::optional<CpuMemoryUse> cpu_memory_use();
// Its begin_peak(); nothing before keep_cpu_memory().
void begin_cpu_peak();
// Returns it for the log: "1.33 GB of tensors at most, 1.66 GB with freed ones kept for reuse"; ""
// before keep_cpu_memory().
std::string cpu_memory_text();

}  // namespace gantrain
