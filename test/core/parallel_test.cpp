// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "support/catch.h"

using namespace gantrain;
namespace fs = std::filesystem;

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

TEST_CASE("AMachineIsBusyFromOneShareOnAndCalmAfterEight") {
  BusyMachine machine;
  CHECK_FALSE(machine.observe(0.1));
  CHECK(machine.observe(0.3));
  for (int i = 0; i < 7; ++i) CHECK(machine.observe(0.01));
  CHECK(machine.observe(0.1));  // not calm: the count begins again
  for (int i = 0; i < 7; ++i) CHECK(machine.observe(0.0));
  CHECK_FALSE(machine.observe(0.0));
  CHECK_FALSE(machine.observe(0.1));
}

TEST_CASE("AThreadKnowsHowLongItWaitedForACore") {
  const std::optional<int64_t> before = core_wait_ns(gettid());
  if (!before) {
    WARN("skipped: this kernel does not tell how long threads wait (schedstat)");
    return;
  }
  // Threads of one core each, on one core: they wait for each other.
  cpu_set_t all, one;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    CPU_SET(core, &one);
    break;
  }
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) {
    }
  });
  const auto bound = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (core_wait_ns(gettid()) == before && std::chrono::steady_clock::now() < bound) {
  }
  ends = true;
  other.join();
  sched_setaffinity(0, sizeof all, &all);
  CHECK(core_wait_ns(gettid()).value() > before.value());
  CHECK_FALSE(core_wait_ns(0).has_value());
}

TEST_CASE("SurplusThreadsComeAndGoAndOthersWorkBesideThem") {
  const auto threads = [] {
    return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
  };
  const WithThreads two(2);
  const auto sum = [] {
    std::atomic<int64_t> sum{0};
    parallel_for(0, 100, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    return sum.load();
  };
  CHECK(sum() == 4950);
  const auto before = threads();
  for (int i = 0; i < 3; ++i) {
    const SurplusThreads surplus;
    CHECK(threads() == before + 1 + omp_get_num_procs());
    CHECK(sum() == 4950);
  }
  const auto bound = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (threads() > before && std::chrono::steady_clock::now() < bound) {
  }
  CHECK(threads() == before);
}
