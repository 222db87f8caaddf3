// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/save/run_folder.h"
#include "util/file.h"
#include "util/system.h"

using namespace gantrain;

TEST_CASE("OneRunAtATimeWorksInAFolder") {
  const TemporaryFolder folder;
  const int lock = lock_run_folder(folder / "run");
  REQUIRE(lock >= 0);
  CHECK_THROWS_WITH(lock_run_folder(folder / "run"),
                    Catch::Contains("another run is at work there"));
  ::close(lock);
  const int again = lock_run_folder(folder / "run");
  CHECK(again >= 0);
  ::close(again);
}

TEST_CASE("AFolderThatCannotBeLockedIsNotUsed") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".lock");
  CHECK_THROWS_WITH(lock_run_folder(folder.path()), Catch::Contains("/.lock: "));
}

TEST_CASE("ALockThatIsALinkOrAPipeIsRefused") {
  const TemporaryFolder folder, others;
  std::filesystem::create_symlink(others / "victim", folder / ".lock");
  CHECK_THROWS_WITH(lock_run_folder(folder.path()), Catch::Contains("/.lock: is a link"));
  CHECK_FALSE(std::filesystem::exists(others / "victim"));
  std::filesystem::remove(folder / ".lock");
  REQUIRE(::mkfifo((folder / ".lock").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(lock_run_folder(folder.path()), Catch::Contains("/.lock: is no regular file"));
}

// How long a lock is held after it was asked for: longer than a run at work on this machine is
// waited for, a second.
constexpr useconds_t kHeld = 1'500'000;

// As after the death of a node whose lease on a file server is not over: the kernel's list of locks
// has no line.
TEST_CASE("ALockThatNoProcessOfThisMachineHasIsWaitedFor") {
  const TemporaryFolder folder;
  const int lock = lock_run_folder(folder / "run");
  REQUIRE(lock >= 0);
  std::atomic<bool> there{false};
  std::thread lease([&] {
    ::usleep(kHeld);
    there = true;
    ::close(lock);
  });
  write_file(folder / "locks", "");
  const int again = lock_run_folder(folder / "run", folder / "locks");
  CHECK(there);
  CHECK(again >= 0);
  ::close(again);
  lease.join();
}

// As when a run was killed while a thread of it wrote to a slow disk: the lock outlives the process
// that took it.
TEST_CASE("WhatIsLeftOfAKilledRunIsWaitedFor") {
  const TemporaryFolder folder;
  int ready[2], over[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(over) == 0);
  const pid_t run = ::fork();
  if (run == 0) {
    const int lock = lock_run_folder(folder / "run");
    if (::fork() == 0) {
      char there = lock >= 0 ? 'y' : 'n';
      if (::write(ready[1], &there, 1) != 1) ::_exit(1);
      ::close(over[1]);
      [[maybe_unused]] const ssize_t end = ::read(over[0], &there, 1);
    }
    ::_exit(0);
  }
  ::close(ready[1]);
  ::close(over[0]);
  char there = 'n';
  REQUIRE(::read(ready[0], &there, 1) == 1);
  ::close(ready[0]);
  REQUIRE(there == 'y');
  REQUIRE(::waitpid(run, nullptr, 0) == run);
  const double begun = monotonic_seconds();
  const std::jthread end([&] {
    ::usleep(kHeld);
    ::close(over[1]);
  });
  const int lock = lock_run_folder(folder / "run");
  CHECK(lock >= 0);
  CHECK(monotonic_seconds() - begun >= 1e-6 * kHeld);
  ::close(lock);
}
