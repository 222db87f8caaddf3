// SPDX-License-Identifier: Apache-2.0
#include "util/heap.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

// Sanitizers have a heap of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace gantrain {

namespace {

// Page faults of an iteration that takes 64 MB, once the first ones are over.
int64_t faults_of_an_iteration() {
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<int64_t>(usage.ru_minflt);
  };
  int64_t before = 0;
  for (int i = 0; i < 6; ++i) {
    if (i == 2) before = faults();
    std::vector<void*> blocks;
    for (int k = 0; k < 8; ++k) {
      constexpr size_t kSize = 8 << 20;
      blocks.push_back(std::malloc(kSize));
      for (size_t at = 0; at < kSize; at += 4096)
        static_cast<volatile char*>(blocks.back())[at] = 1;
    }
    for (void* block : blocks) std::free(block);
  }
  return (faults() - before) / 4;
}

// In a child, whose heap nothing else has formed.
int in_a_child(int (*body)()) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("FreedMemoryComesBackWithoutPageFaults") {
  for (const char* name : {"GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_"}) unsetenv(name);
  CHECK(in_a_child([] {
          keep_freed_memory();
          return faults_of_an_iteration() < 100 ? 0 : 1;
        }) == 0);
}

TEST_CASE("TheUsersOwnHeapSettingsWin") {
  setenv("MALLOC_TRIM_THRESHOLD_", "131072", /*overwrite=*/1);
  CHECK(in_a_child([] {
          keep_freed_memory();
          return faults_of_an_iteration() > 10000 ? 0 : 1;  // of 16384 pages
        }) == 0);
  unsetenv("MALLOC_TRIM_THRESHOLD_");
}

}  // namespace gantrain

#endif
