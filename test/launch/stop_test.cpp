// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include "launch/local/processes.h"
#include "launch_helper.h"
#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

namespace {

size_t ready_number(int64_t rank) { return static_cast<size_t>(4 + rank); }

// Says that it is ready, waits for the stop flag, "saves" and ends as a trainer does.
int stops_when_asked(const RankContext& context, const char*) {
  shared_number(ready_number(context.rank())) = 1;
  while (*context.stop == 0) usleep(1000);
  if (stop_requested() != *context.stop) return 9;
  shared_number(static_cast<size_t>(context.rank())) = *context.stop;
  return static_cast<int>(Exit::kStopped);
}

int ignores_all(const RankContext& context, const char*) {
  signal(SIGTERM, SIG_IGN);
  shared_number(ready_number(context.rank())) = 1;
  while (true) pause();
}

Launcher::Result stopped_by(std::initializer_list<int> signals,
                            RankMain main,
                            double grace,
                            const Patience& patience = {}) {
  LaunchOptions options;
  options.grace = Duration{grace};
  options.patience = patience;
  for (const int64_t rank : {0, 1}) shared_number(ready_number(rank)) = 0;
  Launcher launcher(main, 2, options);
  const auto ready = [] {
    return shared_number(ready_number(0)) + shared_number(ready_number(1)) == 2;
  };
  REQUIRE(eventually(ready, 60));
  for (const int number : signals) launcher.signal(number);
  return launcher.wait();
}

}  // namespace

TEST_CASE("CtrlCSavesAndEndsWith130") {
  clear_shared_numbers();
  const auto result = stopped_by({SIGINT}, stops_when_asked, 30);
  CHECK(result.code == 130);
  CHECK(shared_number(0) == SIGTERM);
  CHECK(shared_number(1) == SIGTERM);
  CHECK_THAT(result.err, Catch::Contains("asked the ranks to save and stop"));
}

TEST_CASE("SigtermAndSigusr1SaveAndEndWith75") {
  clear_shared_numbers();
  CHECK(stopped_by({SIGTERM}, stops_when_asked, 30).code == 75);
  CHECK(stopped_by({SIGUSR1}, stops_when_asked, 30).code == 75);
  CHECK(shared_number(1) == SIGUSR1);
  CHECK(stopped_by({SIGHUP}, stops_when_asked, 30).code == 75);
}

TEST_CASE("AfterTheGraceRanksAreKilled") {
  const auto result = stopped_by({SIGTERM}, ignores_all, 0.3);
  CHECK(result.code == 75);
  CHECK(result.after_signal < 3);
  CHECK_THAT(result.err, Catch::Contains("killing the ranks"));
}

TEST_CASE("AThirdCtrlCKillsAtOnce") {
  // The second one would leave a minute.
  const auto result = stopped_by(
      {SIGINT, SIGINT, SIGINT}, ignores_all, 90, {.after_failure = 2, .second_interrupt = 60});
  CHECK(result.code == 130);
  CHECK(result.after_signal < 20);
}

TEST_CASE("ASecondCtrlCLeavesTwoSeconds") {
  const auto result = stopped_by({SIGINT, SIGINT}, ignores_all, 30);
  CHECK(result.code == 130);
  CHECK(result.after_signal < 5);
}

TEST_CASE("RanksThatFinishAnywayAreDone") {
  clear_shared_numbers();
  const RankMain finishes = [](const RankContext& context, const char*) -> int {
    stops_when_asked(context, nullptr);
    return 0;
  };
  CHECK(stopped_by({SIGTERM}, finishes, 30).code == 0);
  CHECK(stopped_by({SIGINT}, finishes, 30).code == 130);
}

TEST_CASE("RanksThatStopByThemselvesEndWith75") {
  const auto result = Launcher([](const RankContext&, const char*) { return 75; }, 2).wait();
  CHECK(result.code == 75);
  CHECK(result.err == "");
}

TEST_CASE("AnIgnoredHangupStaysIgnored") {
  clear_shared_numbers();
  signal(SIGHUP, SIG_IGN);  // nohup
  const auto result = stopped_by({SIGHUP, SIGTERM}, stops_when_asked, 30);
  CHECK(result.code == 75);
  CHECK_THAT(result.err, Catch::Contains("SIGTERM") && !Catch::Contains("SIGHUP"));
}

TEST_CASE("AStopWhileLoadingEndsAtOnce") {
  World world;
  Launcher launcher(
      []() -> RankMain {
        fprintf(stderr, "loading\n");
        while (true) pause();
      },
      world,
      {});
  REQUIRE(launcher.wait_for("loading"));
  launcher.signal(SIGINT);
  const auto result = launcher.wait();
  CHECK(result.code == 130);
  CHECK(result.after_signal < 20);  // less than the grace that ranks would have
}

TEST_CASE("AStopThatArrivesWithTheForkServersAnswerLetsTheRanksSave") {
  clear_shared_numbers();
  World world;
  Launcher launcher(
      []() -> RankMain {
        kill(getppid(), SIGSTOP);  // so that the launcher reads the answer after the stop
        return stops_when_asked;
      },
      world,
      {});
  REQUIRE(eventually([] { return shared_number(ready_number(0)) == 1; }, 60));
  kill(launcher.pid(), SIGTERM);
  kill(launcher.pid(), SIGCONT);
  const auto result = launcher.wait();
  CHECK(result.code == 75);
  CHECK(shared_number(0) == SIGTERM);
}

TEST_CASE("AFailureWhileSavingIsReported") {
  clear_shared_numbers();
  const RankMain main = [](const RankContext& context, const char*) -> int {
    const int code = stops_when_asked(context, nullptr);
    context.slot().beat(10, 1000);
    if (context.rank() == 1) fail(Exit::kDisk, "disk full");
    return code;
  };
  const auto result = stopped_by({SIGTERM}, main, 30);
  CHECK(result.code == 8);
  CHECK_THAT(result.err, Catch::Contains("rank 1 (") && Catch::Contains("disk full"));
}

TEST_CASE("AnEarlyStopDoesNotKillARankThatHasJustStarted") {
  // SIGTERM at any moment while the ranks are forked and set up their handlers.
  for (int delay = 0; delay < 10; ++delay) {
    World world;
    world.ranks.world = world.ranks.local_world = 2;
    Launcher launcher(
        [] {
          fprintf(stderr, "loaded\n");
          return RankMain([](const RankContext& context, const char*) -> int {
            for (int i = 0; i < 1000 && *context.stop == 0; ++i) usleep(1000);
            return 75;
          });
        },
        world,
        {});
    REQUIRE(launcher.wait_for("loaded"));
    usleep(static_cast<useconds_t>(delay * 200));
    launcher.signal(SIGTERM);
    const auto result = launcher.wait();
    INFO(result.err);
    CHECK(result.code == 75);
  }
}

}  // namespace gantrain
