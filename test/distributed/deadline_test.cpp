// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <thread>

#include "distributed/backend.h"
#include "support/catch.h"
#include "util/system.h"

using namespace gantrain;

namespace {

int message_pipe = -1;

// As a rank's handler does: it tells the uncaught error and aborts.
[[noreturn]] void tell_and_abort() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const UserError& e) {
    const std::string text = std::to_string(static_cast<int>(e.code())) + " " + e.what();
    if (::write(message_pipe, text.data(), text.size()) < 0) std::perror("write");
  }
  ::signal(SIGABRT, SIG_DFL);
  std::abort();
}

}  // namespace

TEST_CASE("WhatNeverReturnsEndsWithItsMessage") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    message_pipe = ends[1];
    std::set_terminate(tell_and_abort);
    const Deadline deadline(0.1, Exit::kEnvironment, "nobody came");
    while (true) ::pause();
  }
  ::close(ends[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  char text[64] = {};
  CHECK(::read(ends[0], text, sizeof text - 1) > 0);
  CHECK(std::string(text) == "4 nobody came");
  ::close(ends[0]);
}

TEST_CASE("ADeadlineThatIsMetEndsAtOnce") {
  const double start = monotonic_seconds();
  { const Deadline deadline(60, Exit::kEnvironment, "nobody came"); }
  CHECK(monotonic_seconds() - start < 50);
}

TEST_CASE("WhatIsLateIsToldOnceAndTheCallGoesOn") {
  std::atomic<int> told = 0;
  {
    const Deadline late(0.01, [&] { ++told; });
    while (told == 0) std::this_thread::yield();
  }
  {
    const Deadline in_time(60, [&] { ++told; });
  }
  CHECK(told == 1);
}
