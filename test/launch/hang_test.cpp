// SPDX-License-Identifier: Apache-2.0
// Who is named when a run makes no progress.
#include <signal.h>
#include <unistd.h>

#include "launch/death/death.h"
#include "launch_helper.h"
#include "support/catch.h"

namespace gantrain {

// 128 nodes of 8 ranks; the clocks of neighbours are an hour apart. Nodes whose ranks all wait name
// the one whose sign of life is the oldest, which is chance; the one of all that did not enter the
// collective is named, wherever it is.
TEST_CASE("InAHangOf1024RanksTheOneThatIsBehindIsNamedWhateverTheClocks") {
  constexpr int64_t kNodes = 128, kRanks = 8, kHour = 3'600'000'000'000;
  const int64_t behind = GENERATE(0, 517, 1023);
  std::vector<Death> told;
  for (int64_t node = 0; node < kNodes; ++node) {
    const auto board = RankStatusBoard::create(kRanks);
    std::vector<RankProgress> progress;
    for (int64_t i = 0; i < kRanks; ++i) {
      RankSlot& slot = board->slot(i);
      const bool is_it = node * kRanks + i == behind;
      slot.set_phase(is_it ? "reading data" : "all-reduce");
      slot.trace.skip_to(is_it ? 39 : 40);
      slot.beat(7, 100);
      progress.push_back({.collectives = slot.trace.entered(),
                          .iteration = slot.iteration(),
                          .heartbeat_ns = slot.heartbeat_ns() + node % 2 * kHour});
    }
    const size_t last = furthest_behind(progress);
    Death hang = death_in(board->slot(static_cast<int64_t>(last)),
                          node * kRanks + static_cast<int64_t>(last));
    hang.kind = Death::Kind::kHang;
    hang.node = node;
    hang.ns = (node + 1) * 1000;
    hang.hang_timeout = 600;
    hang.progress = progress[last];
    told.push_back(hang);
  }
  const auto verdict = decide(told, kNodes);
  REQUIRE(verdict);
  CHECK(verdict->ranks.front().rank == behind);
  CHECK_THAT(verdict->end.error,
             Catch::Contains(fmt::format("node {}: rank {} (", behind / kRanks, behind)) &&
                 Catch::Contains("is behind, in phase \"reading data\""));
}

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

// A slow disk, on which a state takes longer than the timeout.
TEST_CASE("ARankThatWritesAStateMayTakeLonger") {
  LaunchOptions options;
  options.hang_timeout = Duration{1};
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            c.slot().saves = true;
                            c.slot().beat(7, 100);
                            usleep(1'600'000);
                            c.slot().saves = false;
                            c.slot().beat(7, 100);
                            return 0;
                          },
                          1,
                          options)
                          .wait();
  INFO(result.err);
  CHECK(result.code == 0);
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
                            c.slot().trace.skip_to(c.rank() == 1 ? 39 : 40);
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

TEST_CASE("RanksThatCallDifferentCollectivesAreToldApart") {
  LaunchOptions options;
  options.hang_timeout = Duration{0.5};
  const auto result =
      Launcher(
          [](const RankContext& c, const char*) -> int {
            c.slot().set_phase(c.rank() == 1 ? "G backward" : "D backward");
            c.slot().trace.enter("all-reduce", "gradients", 1, c.rank() == 1 ? 400 : 800, true);
            c.slot().beat(7, 100);
            sleep_for_ever();
          },
          2,
          options)
          .wait();
  CHECK(result.code == 6);
  // In the table and in the verdict.
  CHECK_THAT(result.err, Catch::Contains(" s in all-reduce 1 (gradients, 1 tensor, 0.8 kB"));
  CHECK_THAT(result.err,
             Catch::Contains("the ranks have not called the same: rank 0 all-reduce 1 (gradients, "
                             "1 tensor, 0.8 kB, phase \"D backward\"), rank 1 all-reduce 1"));
}

TEST_CASE("InAHangAStoppedRankIsNamed") {
  LaunchOptions options;
  options.hang_timeout = Duration{0.5};
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            if (c.rank() == 2) usleep(50'000);
                            c.slot().trace.skip_to(40);
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

TEST_CASE("ARankThatIsStoppedBeforeItTrainsIsNamed") {
  LaunchOptions options;
  options.hang_timeout = Duration{0.5};
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            c.slot().set_phase("metrics");
                            if (c.rank() == 1) raise(SIGSTOP);
                            sleep_for_ever();
                          },
                          2,
                          options)
                          .wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err,
             Catch::Contains("no progress for") && Catch::Contains("rank 1 (") &&
                 Catch::Contains("in phase \"metrics\""));
}

TEST_CASE("ALoaderThatIsStoppedIsReported") {
  LaunchOptions options;
  options.hang_timeout = Duration{1};
  World world;
  const LoadTrainer load = []() -> RankMain {
    raise(SIGSTOP);
    return nullptr;
  };
  const auto result = Launcher(load, world, options).wait();
  CHECK(result.code == 6);
  CHECK_THAT(result.err, Catch::Contains("loading the trainer was stopped for 1s"));
}

TEST_CASE("ALoaderThatIsKilledIsStartedAgain") {
  clear_shared_numbers();
  LaunchOptions options;
  options.max_restarts = 1;
  options.patience.first_restart = 0;
  World world;
  const LoadTrainer load = []() -> RankMain {
    if (++shared_number(0) == 1) raise(SIGKILL);
    return [](const RankContext&, const char*) -> int { return 0; };
  };
  const auto result = Launcher(load, world, options).wait();
  CHECK(result.code == 0);
  CHECK(shared_number(0) == 2);
  clear_shared_numbers();
  options.max_restarts = 0;
  const auto once = Launcher(load, world, options).wait();
  CHECK(once.code == 6);
  CHECK_THAT(once.err,
             Catch::Contains("loading the trainer died of signal 9 (SIGKILL)") &&
                 Catch::Contains("next: resume"));
}

}  // namespace gantrain
