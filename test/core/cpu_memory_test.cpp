// SPDX-License-Identifier: Apache-2.0
#include "core/cpu_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "core/torch.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

constexpr int64_t kMiB = 1 << 20;

// A cache whose clock the test moves.
struct Clocked {
  explicit Clocked(std::optional<int64_t> limit = {}) : cache(limit, [this] { return now; }) {}
  double now = 0;
  BlockCache cache;
};

// Bytes of this process that are in memory.
int64_t resident() {
  std::ifstream in("/proc/self/statm");
  int64_t pages = 0;
  in >> pages >> pages;
  return pages * 4096;
}

}  // namespace

TEST_CASE("AFreedBlockIsTheNextOneOfItsSize") {
  BlockCache cache;
  void* first = cache.allocate(5 * kMiB);
  void* other = cache.allocate(5 * kMiB);
  CHECK(first != other);
  CHECK(cache.release(first));
  CHECK(cache.allocate(5 * kMiB - 100) == first);
  CHECK(cache.use().reused == 1);
  CHECK(cache.use().fresh == 2);
  cache.release(first);
  void* larger = cache.allocate(8 * kMiB);
  CHECK(larger != first);
  cache.release(larger);
  cache.release(other);
}

TEST_CASE("AKeptBlockServesRequestsOfHalfItsSizeAndMore") {
  BlockCache cache;
  void* eight = cache.allocate(8 * kMiB);
  void* ten = cache.allocate(10 * kMiB);
  cache.release(ten);
  cache.release(eight);
  void* small = cache.allocate(4 * kMiB - 1);
  CHECK(small == eight);  // the smallest that is large enough
  void* smaller = cache.allocate(3 * kMiB);
  CHECK(smaller != ten);
  CHECK(cache.use().in_use == (8 + 3) * kMiB);
  CHECK(cache.release(small));
  CHECK(cache.allocate(8 * kMiB) == eight);  // whole again
}

TEST_CASE("EveryByteOfABlockIsItsOwn") {
  BlockCache cache;
  std::vector<std::pair<char*, size_t>> blocks;
  for (int64_t bytes : {int64_t{1}, kMiB - 1, kMiB + 1, 3 * kMiB + 5, 33 * kMiB + 7}) {
    auto* block = static_cast<char*>(cache.allocate(bytes));
    REQUIRE(block != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(block) % 64 == 0);
    std::memset(block, static_cast<int>(blocks.size()) + 1, static_cast<size_t>(bytes));
    blocks.emplace_back(block, bytes);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto [block, bytes] = blocks[i];
    CHECK(block[0] == static_cast<char>(i + 1));
    CHECK(block[bytes - 1] == static_cast<char>(i + 1));
    CHECK(cache.release(block));
  }
}

TEST_CASE("ABlockIsAtMostAnEighthLargerThanAskedFor") {
  for (int64_t bytes = BlockCache::kSmallest; bytes < 300 * kMiB; bytes += bytes / 37 + 1) {
    const int64_t size = BlockCache::size_class(bytes);
    CHECK(size >= bytes);
    CHECK(size <= bytes + bytes / 8);
    CHECK(size % 4096 == 0);
    CHECK(BlockCache::size_class(size) == size);
  }
}

TEST_CASE("WhatIsHeldStaysWithinAQuarterMoreThanWasInUse") {
  Clocked c;
  std::vector<void*> blocks;
  // Sizes grow, so that many blocks never fit again.
  for (int64_t round = 0; round < 30; ++round) {
    for (int64_t i = 0; i < 4; ++i) blocks.push_back(c.cache.allocate((2 + round + 8 * i) * kMiB));
    for (void* block : blocks) CHECK(c.cache.release(block));
    blocks.clear();
    const CpuMemoryUse use = c.cache.use();
    CHECK(use.in_use == 0);
    CHECK(use.kept <= use.peak + use.peak / 4);
    CHECK(use.peak_held <= use.peak + use.peak / 4);
  }
  CHECK(c.cache.use().kept > 0);
}

TEST_CASE("ALimitBoundsWhatIsKept") {
  Clocked c(10 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(c.cache.allocate(4 * kMiB));
  for (void* block : blocks) {
    c.cache.release(block);
    CHECK(c.cache.use().kept <= 10 * kMiB);
  }
  CHECK(c.cache.use().kept == 8 * kMiB);
}

TEST_CASE("MemoryOfALargeMomentGoesBackInTheNextMinutes") {
  Clocked c;
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(c.cache.allocate(8 * kMiB));
  for (void* block : blocks) c.cache.release(block);
  CHECK(c.cache.use().kept == 64 * kMiB);
  for (int i = 0; i < 3; ++i) {
    c.now += BlockCache::kWindow;
    c.cache.release(c.cache.allocate(8 * kMiB));
  }
  CHECK(c.cache.use().kept <= 10 * kMiB);
  CHECK(c.cache.use().peak == 64 * kMiB);
  c.cache.begin_peak();
  CHECK(c.cache.use().peak == 0);
  c.cache.release(c.cache.allocate(8 * kMiB));
  CHECK(c.cache.use().peak == 8 * kMiB);
}

TEST_CASE("WhatGoesBackIsNoLongerResident") {
  BlockCache cache;
  const int64_t before = resident();
  void* block = cache.allocate(64 * kMiB);
  std::memset(block, 1, 64 * kMiB);
  CHECK(resident() - before > 60 * kMiB);
  cache.release(block);
  CHECK(resident() - before > 60 * kMiB);  // kept
  cache.clear();
  CHECK(cache.use().kept == 0);
  CHECK(resident() - before < 8 * kMiB);
}

TEST_CASE("ABlockThatIsNotOfTheCacheIsLeftAlone") {
  BlockCache cache;
  int other = 0;
  CHECK_FALSE(cache.release(&other));
  CHECK_FALSE(cache.release(nullptr));
  void* block = cache.allocate(1);
  CHECK(cache.release(block));
  CHECK_FALSE(cache.release(block));
}

TEST_CASE("SmallBlocksAreAlignedAndReusedBySize") {
  SmallBlocks blocks(4 * kMiB);
  std::vector<void*> taken;
  for (const int64_t bytes : {1, 64, 65, 1000, 4096, 100'000, 1'000'000}) {
    CAPTURE(bytes);
    void* first = blocks.allocate(bytes);
    REQUIRE(first != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
    std::memset(first, 7, static_cast<size_t>(bytes));
    void* second = blocks.allocate(bytes);
    CHECK(second != first);
    std::memset(second, 8, static_cast<size_t>(bytes));
    CHECK(std::count(static_cast<char*>(first), static_cast<char*>(first) + bytes, 7) == bytes);
    blocks.release(first);
    CHECK(blocks.kept() >= bytes);
    CHECK(blocks.kept() <= std::max<int64_t>(bytes + bytes / 8, 64));
    CHECK(blocks.allocate(bytes) == first);
    CHECK(blocks.kept() == 0);
    taken.push_back(first);
    taken.push_back(second);
  }
  for (void* block : taken) blocks.release(block);
}

TEST_CASE("SmallBlocksKeepNoMoreThanTheirLimit") {
  SmallBlocks blocks(100'000);
  std::vector<void*> all;
  for (int i = 0; i < 50; ++i) all.push_back(blocks.allocate(10'000));
  for (void* block : all) blocks.release(block);
  CHECK(blocks.kept() <= 100'000);
  CHECK(blocks.kept() > 80'000);
}

TEST_CASE("ThreadsFreeWhatOthersAllocated") {
  BlockCache cache;
  std::vector<void*> blocks(64);
  std::vector<std::thread> threads;
  const auto in_threads = [&](const std::function<void(void*&)>& work) {
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < blocks.size(); i += 4) work(blocks[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  };
  for (int round = 0; round < 3; ++round) {
    in_threads([&](void*& block) { block = cache.allocate(2 * kMiB); });
    std::sort(blocks.begin(), blocks.end());
    CHECK(std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end());
    in_threads([&](void*& block) { cache.release(block); });
  }
  CHECK(cache.use().in_use == 0);
  CHECK(cache.use().reused == 128);
}

TEST_CASE("TensorsOfEverySizeLiveAndDieWithTheCacheOn") {
  const at::Tensor before = torch::full({3 << 20}, 7.0F);  // LibTorch's own memory
  keep_cpu_memory();
  keep_cpu_memory();  // once is enough
  REQUIRE(cpu_memory_use());
  CHECK_THAT(cpu_memory_text(), Catch::Contains("kept for reuse"));
  void* freed = nullptr;
  {
    const at::Tensor large = torch::ones({1 << 20});
    freed = large.data_ptr();
    CHECK(cpu_memory_use()->in_use >= 4 * kMiB);
  }
  CHECK(torch::empty({1 << 20}).data_ptr() == freed);
  CHECK(torch::empty({0}).numel() == 0);
  at::Tensor grows = torch::ones({100});
  grows.resize_({2 << 20});
  CHECK(grows[99].item<float>() == 1);
  grows.resize_({4 << 20});
  CHECK(grows[99].item<float>() == 1);
  CHECK(torch::ones({64, 64}).matmul(torch::ones({64, 64}))[5][6].item<float>() == 64);
  for (const size_t bytes : {0, 100, 5'000'000}) {
    void* raw = c10::GetCPUAllocator()->raw_allocate(bytes);
    if (bytes > 0) std::memset(raw, 1, bytes);
    c10::GetCPUAllocator()->raw_deallocate(raw);
  }
  CHECK(before.sum().item<double>() == 7.0 * (3 << 20));
  CHECK_THROWS_AS(torch::empty({int64_t{1} << 50}), c10::OutOfMemoryError);
}
