// SPDX-License-Identifier: Apache-2.0
#include "launch/local/supervise.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "launch/local/processes.h"
#include "launch_helper.h"
#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

namespace {

// Where the launcher would wait for a minute before it kills ranks, they must end by themselves, a
// few milliseconds after the cause on an idle machine.
constexpr double kSoon = 20;  // seconds
LaunchOptions patient() {
  LaunchOptions options;
  options.patience.after_failure = 60;
  return options;
}

// Where rank 1 does something and the others sleep: they must be ended.
template <auto act>
int rank_one(const RankContext& context, const char*) {
  shared_number(static_cast<size_t>(context.rank())) = getpid();
  if (context.rank() == 1) {
    mark_now();
    act(context);
    return 0;
  }
  sleep_for_ever();
}

bool all_gone(int ranks) {
  for (int i = 0; i < ranks; ++i) {
    if (is_alive(static_cast<pid_t>(shared_number(static_cast<size_t>(i))))) return false;
  }
  return true;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

TEST_CASE("AllRanksDoneIsZero") {
  for (const int64_t nproc : {1, 3}) {
    const auto result = Launcher(done, nproc).wait();
    CHECK(result.code == 0);
    CHECK(result.err == "");
    CHECK(result.out == "");
  }
}

TEST_CASE("ARanksExitCodeBecomesTheWorlds") {
  clear_shared_numbers();
  const auto result =
      Launcher(rank_one<[](const RankContext&) { std::exit(3); }>, 3, patient()).wait();
  CHECK(result.code == 3);
  CHECK(result.ended - marked() < kSoon);
  CHECK_THAT(result.err, Catch::Contains("rank 1 (") && Catch::Contains("ended with exit code 3"));
  CHECK(all_gone(3));
}

TEST_CASE("ARankThatLeavesByItselfHasFailed") {
  const auto leaving = GENERATE(0, 75, 130);
  shared_number(6) = leaving;
  for (const int64_t nproc : {2, 3}) {
    const auto result = Launcher(rank_one<[](const RankContext& context) {
                                   context.slot().set_phase("D backward");
                                   context.slot().beat(100, 12345);
                                   std::exit(static_cast<int>(shared_number(6)));
                                 }>,
                                 nproc,
                                 patient())
                            .wait();
    CHECK(result.code == 6);
    CHECK_THAT(result.err,
               Catch::Contains("rank 1 (") &&
                   Catch::Contains("failed in phase \"D backward\" at 12.3 kimg: it left with exit "
                                   "code " +
                                   std::to_string(leaving) + " before its work was done"));
  }
}

TEST_CASE("ALonelyRankThatLeavesByItselfHasFailed") {
  const auto result =
      Launcher([](const RankContext&, const char*) -> int { std::exit(0); }, 1, patient()).wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err, Catch::Contains("rank 0 (") && Catch::Contains("left with exit code 0"));
}

TEST_CASE("AKilledRankEndsTheWorldAndIsNamedLast") {
  clear_shared_numbers();
  const auto result = Launcher(rank_one<[](const RankContext& context) {
                                 context.slot().set_phase("D backward");
                                 context.slot().beat(100, 12345);
                                 context.board->set_run_folder("runs/7");
                                 raise(SIGKILL);
                               }>,
                               3,
                               patient())
                          .wait();
  CHECK(result.code == 6);
  CHECK(result.ended - marked() < kSoon);
  CHECK_THAT(result.err,
             Catch::Contains("error   rank 1 (") &&
                 Catch::Contains("pid " + std::to_string(shared_number(1)) + ")") &&
                 Catch::Contains("died of signal 9 (SIGKILL) in phase \"D backward\" at "
                                 "12.3 kimg"));
  CHECK(last_line(result.err) == "next: resume runs/7");
  CHECK(all_gone(3));
}

TEST_CASE("AThrownUserErrorIsPrintedOnceWithItsCode") {
  const auto result =
      Launcher(
          [](const RankContext&, const char*) -> int { fail(Exit::kInput, "photo.png is broken"); },
          4)
          .wait();
  CHECK(result.code == 3);
  CHECK(result.err == "error   photo.png is broken\n");
}

TEST_CASE("OtherExceptionsHaveTheirCodes") {
  auto result =
      Launcher([](const RankContext&, const char*) -> int { throw std::bad_alloc(); }, 2).wait();
  CHECK(result.code == 7);
  result =
      Launcher([](const RankContext&, const char*) -> int { throw std::runtime_error("a bug"); }, 2)
          .wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err,
             Catch::Contains("failed in phase \"start-up\"") && Catch::Contains("a bug"));
  result = Launcher(
               [](const RankContext&, const char*) -> int {
                 std::thread([] { throw std::runtime_error("a bug in a thread"); }).join();
                 return 0;
               },
               1)
               .wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err,
             Catch::Contains("died of signal 6 (SIGABRT)") && Catch::Contains("a bug in a thread"));
}

TEST_CASE("ACrashPrintsItsStack") {
  clear_shared_numbers();
  const auto result = Launcher(rank_one<[](const RankContext&) { raise(SIGSEGV); }>, 2).wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err, Catch::Contains("[rank 1] crash: SIGSEGV"));
  CHECK_THAT(result.err, Catch::Contains("died of signal 11 (SIGSEGV)"));
}

TEST_CASE("AVictimOfADeadPeerIsNotNamed") {
  clear_shared_numbers();
  const auto result = Launcher(
                          [](const RankContext& context, const char*) -> int {
                            if (context.rank() == 0) {
                              shared_number(0) = getpid();
                              throw std::runtime_error("Connection closed by peer");
                            }
                            // Until the launcher has seen the victim's end.
                            while (shared_number(0) == 0) usleep(1000);
                            const auto victim = static_cast<pid_t>(shared_number(0));
                            while (kill(victim, 0) == 0) usleep(1000);
                            raise(SIGKILL);
                            return 0;
                          },
                          2)
                          .wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err, Catch::Contains("rank 1 (") && !Catch::Contains("rank 0 ("));
}

TEST_CASE("TheRankForWhichOthersWaitedInVainIsNamed") {
  clear_shared_numbers();
  const auto result =
      Launcher(
          [](const RankContext& c, const char*) -> int {
            c.slot().set_phase(c.rank() == 1 ? "reading data" : "all-reduce");
            c.slot().trace.skip_to(c.rank() == 1 ? 39 : 40);
            c.slot().beat(7, 100);
            ++shared_number(static_cast<size_t>(c.rank()));
            if (c.rank() != 0) sleep_for_ever();
            while (shared_number(1) * shared_number(2) == 0) usleep(1000);
            throw std::runtime_error("Timed out waiting 2000ms for recv operation to complete");
          },
          3)
          .wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err,
             Catch::Contains("error   rank 1 (") &&
                 Catch::Contains("is behind, in phase \"reading data\" at iteration 7; rank 0 "
                                 "waited for it in vain: Timed out waiting 2000ms"));
}

TEST_CASE("AnAbortByNcclsWatchdogYieldsToTheCause") {
  clear_shared_numbers();
  const auto result =
      Launcher(
          [](const RankContext& context, const char*) -> int {
            if (context.rank() == 0) {
              shared_number(0) = getpid();
              std::thread([] {
                throw std::runtime_error(
                    "[Rank 0] Process group watchdog thread terminated with exception: NCCL error "
                    "in: NCCLUtils.cpp:77, remote process exited or there was a network error");
              }).join();
            }
            while (shared_number(0) == 0) usleep(1000);
            const auto victim = static_cast<pid_t>(shared_number(0));
            while (kill(victim, 0) == 0) usleep(1000);
            fail(Exit::kInput, "photo.png is broken");
          },
          2)
          .wait();
  CHECK(result.code == 3);
  CHECK_THAT(result.err, Catch::Contains("error   photo.png is broken\n"));
}

TEST_CASE("ARankThatIgnoresSigtermIsKilled") {
  clear_shared_numbers();
  const auto result = Launcher(
                          [](const RankContext& context, const char*) -> int {
                            shared_number(static_cast<size_t>(context.rank())) = getpid();
                            signal(SIGTERM, SIG_IGN);
                            if (context.rank() == 1) {
                              while (shared_number(2) == 0) usleep(1000);
                              mark_now();
                              return 5;
                            }
                            shared_number(2) = 1;
                            sleep_for_ever();
                          },
                          2)
                          .wait();
  CHECK(result.code == 5);
  CHECK(result.ended - marked() < 4);
  CHECK(all_gone(2));
}

TEST_CASE("ASaveThatIsBeingWrittenIsEndedFirst") {
  clear_shared_numbers();
  const auto result = Launcher(
                          [](const RankContext& context, const char*) -> int {
                            if (context.rank() == 1) {
                              while (shared_number(0) == 0) usleep(1000);
                              raise(SIGKILL);
                            }
                            context.slot().saves = true;
                            shared_number(0) = 1;
                            while (!context.board->aborting) usleep(1000);
                            // Longer than a rank has that saves nothing.
                            const double end = monotonic_seconds() + Patience{}.after_failure + 0.5;
                            while (monotonic_seconds() < end) usleep(10'000);
                            shared_number(2) = 1;  // written
                            context.slot().saves = false;
                            throw std::runtime_error("Connection closed by peer");
                          },
                          2)
                          .wait();
  CHECK(result.code == 6);
  CHECK(shared_number(2) == 1);
  CHECK_THAT(result.err, Catch::Contains("rank 1 (") && !Catch::Contains("rank 0 ("));
}

TEST_CASE("NoRankOutlivesAKilledLauncher") {
  clear_shared_numbers();
  Launcher launcher(
      [](const RankContext& context, const char*) -> int {
        signal(SIGTERM, SIG_IGN);
        shared_number(static_cast<size_t>(context.rank())) = getpid();
        sleep_for_ever();
      },
      3);
  REQUIRE(
      eventually([] { return shared_number(0) * shared_number(1) * shared_number(2) != 0; }, 60));
  REQUIRE(is_alive(launcher.pid()));
  launcher.signal(SIGKILL);
  CHECK(eventually([] { return all_gone(3); }, 60));
}

TEST_CASE("NoForkServerOutlivesAKilledLauncher") {
  clear_shared_numbers();
  World world;
  Launcher launcher(
      []() -> RankMain {
        shared_number(0) = getpid();
        sleep_for_ever();
      },
      world,
      {});
  REQUIRE(eventually([] { return shared_number(0) != 0; }, 60));
  launcher.signal(SIGKILL);
  CHECK(eventually([] { return all_gone(1); }, 60));
}

TEST_CASE("WhatARankStartedIsSweptAway") {
  clear_shared_numbers();
  const auto result = Launcher(
                          [](const RankContext&, const char*) -> int {
                            if (fork() == 0) {
                              signal(SIGTERM, SIG_IGN);
                              setsid();
                              shared_number(0) = getpid();
                              sleep_for_ever();
                            }
                            while (shared_number(0) == 0) usleep(1000);
                            return 0;
                          },
                          1)
                          .wait();
  CHECK(result.code == 0);
  CHECK(all_gone(1));
}

TEST_CASE("OutputOfOtherRanksIsPrefixedInWholeLines") {
  const auto result = Launcher(
                          [](const RankContext& context, const char*) -> int {
                            std::printf("out of %d\n", static_cast<int>(context.rank()));
                            std::fprintf(stderr, "half ");
                            usleep(10'000);
                            std::fprintf(stderr, "line\nunfinished");
                            return 0;
                          },
                          2)
                          .wait();
  CHECK(result.out == "out of 0\n");
  CHECK_THAT(result.err,
             Catch::Contains("[rank 1] half line\n") && Catch::Contains("[rank 1] out of 1\n") &&
                 Catch::Contains("[rank 1] unfinished\n"));
}

TEST_CASE("RestartsHaveANewPortAndBoard") {
  LaunchOptions options;
  options.max_restarts = 2;
  options.patience.first_restart = 0;
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            if (c.slot().iteration() != 0 || c.slot().heartbeat_ns() != 0) return 9;
                            c.slot().beat(5 + c.attempt, 5);
                            if (c.attempt < 2 && c.rank() == 1) raise(SIGKILL);
                            if (c.attempt < 2) sleep_for_ever();
                            return 0;
                          },
                          2,
                          options)
                          .wait();
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Catch::Contains("restart 1 of 2") && Catch::Contains("restart 2 of 2"));
}

TEST_CASE("WhatTheUserMustFixIsNotRestarted") {
  clear_shared_numbers();
  LaunchOptions options;
  options.max_restarts = 2;
  const auto result = Launcher(
                          [](const RankContext&, const char*) -> int {
                            ++shared_number(0);
                            return 8;
                          },
                          1,
                          options)
                          .wait();
  CHECK(result.code == 8);
  CHECK(shared_number(0) == 1);
}

}  // namespace gantrain
