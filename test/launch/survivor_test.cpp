// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/local/processes.h"
#include "launch_helper.h"
#include "support/catch.h"

namespace gantrain {

namespace {

bool is_dev_null(int descriptor) {
  struct stat file {};
  struct stat null {};
  return ::fstat(descriptor, &file) == 0 && ::stat("/dev/null", &null) == 0 &&
         file.st_rdev == null.st_rdev;
}

// The survivor's work: what it finds, in the shared numbers 1 to 3; 0 is set last.
void look_around() {
  int null_streams = 0;
  int open_files = 0;
  for (int fd = 0; fd < 256; ++fd) {
    null_streams += fd <= STDERR_FILENO && is_dev_null(fd) ? 1 : 0;
    open_files += ::fcntl(fd, F_GETFD) != -1 ? 1 : 0;
  }
  shared_number(1) = null_streams;
  shared_number(2) = open_files;
  shared_number(3) = getppid();
  shared_number(0) = getpid();
}

// A process that starts a survivor and then waits to be killed.
pid_t start_watched() {
  const pid_t watched = fork();
  if (watched == 0) {
    start_survivor(look_around);
    shared_number(4) = 1;
    while (true) pause();
  }
  return watched;
}

}  // namespace

TEST_CASE("ASurvivorWorksAfterTheDeathWithoutTheOthersFiles") {
  clear_shared_numbers();
  const pid_t watched = start_watched();
  REQUIRE(eventually([] { return shared_number(4) == 1; }, 60));
  CHECK(shared_number(0) == 0);
  ::kill(watched, SIGKILL);
  waitpid(watched, nullptr, 0);
  REQUIRE(eventually([] { return shared_number(0) != 0; }, 60));
  CHECK(shared_number(1) == 3);
  CHECK(shared_number(2) == 3);
  CHECK(shared_number(3) != watched);
  CHECK(eventually([] { return !is_alive(static_cast<pid_t>(shared_number(0))); }, 60));
}

}  // namespace gantrain
