// SPDX-License-Identifier: Apache-2.0
#include "draw/job.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {
namespace {

// What becomes of a process that does this.
template <class Action>
int status_of(const Action& action) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);  // not the test's own
    action();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return status;
}

}  // namespace

TEST_CASE("ASignalEndsAJobBetweenTwoSteps") {
  const TemporaryFolder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    const int status = status_of([&] {
      Job job(3, "pictures");
      raise(signal);
      write_file(folder / "first", "whole");
      job.step();
      write_file(folder / "second", "whole");
    });
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(std::filesystem::exists(folder / "first"));
    CHECK(!std::filesystem::exists(folder / "second"));
  }
}

TEST_CASE("ASignalAfterTheLastStepEndsTheProcessWithTheJob") {
  const int status = status_of([] {
    Job job(1, "pictures");
    job.step();
    raise(SIGINT);
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

TEST_CASE("AnIgnoredHangupStaysIgnored") {
  const int status = status_of([] {
    ::signal(SIGHUP, SIG_IGN);
    Job job(2, "pictures");
    raise(SIGHUP);
    job.step();
    job.step();
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace gantrain
