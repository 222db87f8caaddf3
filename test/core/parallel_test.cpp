// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "support/catch.h"

using namespace gantrain;

namespace {

struct WithThreads {
  explicit WithThreads(int count) : before(at::get_num_threads()) { at::set_num_threads(count); }
  ~WithThreads() { at::set_num_threads(before); }
  int before;
};

}  // namespace

TEST_CASE("SeveralThreadsWorkOnARange") {
  const WithThreads three(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int64_t> sum{0};
  parallel_for(5, 105, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum += i;
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  CHECK(sum == (5 + 104) * 100 / 2);
  CHECK(threads.size() == 3);
}

TEST_CASE("WhatAThreadThrowsArrives") {
  const WithThreads two(2);
  CHECK_THROWS_AS(parallel_for(0,
                               2,
                               1,
                               [](int64_t begin, int64_t /*end*/) {
                                 if (begin == 1) throw std::runtime_error("second");
                               }),
                  std::runtime_error);
}

TEST_CASE("AnEmptyRangeCallsNothing") {
  bool called = false;
  parallel_for(3, 3, 1, [&](int64_t, int64_t) { called = true; });
  CHECK_FALSE(called);
}
