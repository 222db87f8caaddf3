// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "launch/local/supervise.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("LocalRanksAnswerInOrder") {
  const std::string big(1 << 20, 'x');  // more than a pipe holds
  const auto answers = run_local_ranks(3, 20, [&](const Rendezvous& r) {
    const bool listens = (r.ranks.rank == 0) == (r.listen_fd >= 0);
    return (listens && r.master.port > 0 ? "" : "wrong ") + std::to_string(r.ranks.rank) + big;
  });
  REQUIRE(answers.size() == 3);
  for (size_t rank = 0; rank < 3; ++rank) CHECK((answers[rank] == std::to_string(rank) + big));
}

TEST_CASE("ALocalRankThatFailsIsNamedWithItsReason") {
  const auto fails = [](const Rendezvous& r) -> std::string {
    if (r.ranks.rank == 1) throw std::runtime_error("no luck");
    return "";
  };
  CHECK_THROWS_WITH(run_local_ranks(2, 20, fails), "rank 1: no luck");
  const auto dies = [](const Rendezvous& r) -> std::string {
    if (r.ranks.rank == 1) raise(SIGKILL);
    return "";
  };
  CHECK_THROWS_WITH(run_local_ranks(2, 20, dies), "rank 1: signal 9");
}

TEST_CASE("TheRankThatFailedByItselfIsNamedAndNotItsPeer") {
  const auto fails = [](const Rendezvous& r) -> std::string {
    if (r.ranks.rank == 0) throw std::runtime_error("rank 0: Connection closed by peer");
    throw UserError(Exit::kDisk, "no room");
  };
  try {
    run_local_ranks(2, 20, fails);
    FAIL("nothing was thrown");
  } catch (const UserError& e) {
    CHECK(std::string(e.what()) == "rank 1: no room");
    CHECK(e.code() == Exit::kDisk);
  }
  const auto lost = [](const Rendezvous&) -> std::string {
    throw std::runtime_error("Connection closed by peer");
  };
  CHECK_THROWS_WITH(run_local_ranks(2, 20, lost), "rank 0: Connection closed by peer");
}

TEST_CASE("ALocalRankThatHangsIsEnded") {
  CHECK_THROWS_WITH(run_local_ranks(1,
                                    1,
                                    [](const Rendezvous&) -> std::string {
                                      for (;;) pause();
                                    }),
                    "rank 0: signal 14");
}

namespace {

pid_t starter = 0;  // who starts the rank

}  // namespace

// As at a Ctrl-C that comes while ranks are being started: the rank would wait for the others for
// minutes.
TEST_CASE("ALocalRankWhoseParentIsGoneAtOnceDoesNotBegin") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    starter = ::getpid();
    ::pthread_atfork(
        nullptr,
        [] { ::_exit(0); },
        [] {
          while (::getppid() == starter) ::usleep(1000);
        });
    run_local_ranks(1, 20, [&](const Rendezvous&) -> std::string {
      return ::write(ends[1], "begun", 5) == 5 ? "" : "not told";
    });
  }
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  char text[8] = {};
  CHECK(::read(ends[0], text, sizeof text) == 0);
  CHECK(std::string(text).empty());
  ::close(ends[0]);
}
