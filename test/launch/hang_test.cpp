// SPDX-License-Identifier: Apache-2.0
// Who is named when a run makes no progress.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "launch_helper.h"

namespace gantrain {

namespace {

[[noreturn]] void sleep_for_ever() {
  while (true) pause();
}

}  // namespace

TEST_CASE("ARankWithoutProgressEndsTheRun") {
  LaunchOptions options;
  options.hang_timeout = Duration{0.5};
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            c.slot().set_phase(c.rank() == 1 ? "reading data" : "all-reduce");
                            do {  // rank 0 shows signs of life until rank 1 has shown one
                              c.slot().beat(c.rank() == 1 ? 7 : 8, 100);
                              usleep(1000);
                            } while (c.board->slot(1).heartbeat_ns() == 0);
                            if (c.rank() == 1) mark_now();
                            sleep_for_ever();
                          },
                          2,
                          options)
                          .wait();
  CHECK(result.code == 6);
  CHECK(result.ended - marked() < 4);
  CHECK_THAT(result.err,
             Catch::Contains("rank 1 (") &&
                 Catch::Contains("is behind, in phase \"reading data\" at iteration 7"));
  CHECK_THAT(result.err, Catch::Contains("all-reduce"));
}

// All ranks wait in the same phase of the same iteration, and the one that is missing gave its last
// sign of life after the others had: so it went wrong in 7 of 30 hangs.
TEST_CASE("InAHangTheRankThatDidNotEnterTheCollectiveIsNamed") {
  LaunchOptions options;
  options.hang_timeout = Duration{0.5};
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            if (c.rank() == 1) usleep(50'000);
                            c.slot().set_phase("D backward");
                            c.slot().collectives() = c.rank() == 1 ? 39 : 40;
                            c.slot().beat(7, 100);
                            sleep_for_ever();
                          },
                          3,
                          options)
                          .wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err,
             Catch::Contains("no progress for") && Catch::Contains("--hang-timeout): rank 1 (") &&
                 Catch::Contains("is behind"));
}

TEST_CASE("InAHangAStoppedRankIsNamed") {
  LaunchOptions options;
  options.hang_timeout = Duration{0.5};
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            if (c.rank() == 2) usleep(50'000);
                            c.slot().collectives() = 40;
                            c.slot().beat(7, 100);
                            if (c.rank() == 2) raise(SIGSTOP);
                            sleep_for_ever();
                          },
                          3,
                          options)
                          .wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err, Catch::Contains("--hang-timeout): rank 2 ("));
}

}  // namespace gantrain
