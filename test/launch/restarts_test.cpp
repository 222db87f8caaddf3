// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "launch/death/death.h"
#include "launch_helper.h"
#include "support/catch.h"

namespace gantrain {

namespace {

LaunchOptions options_of(int64_t restarts, double first_pause) {
  LaunchOptions options;
  options.max_restarts = restarts;
  options.patience.first_restart = first_pause;
  return options;
}

AttemptOutcome crash(const std::string& cause, int64_t iteration) {
  AttemptOutcome end;
  end.restartable = true;
  end.cause = cause;
  end.iteration = iteration;
  return end;
}

}  // namespace

TEST_CASE("PausesBetweenRestartsDoubleUpToAMinute") {
  Restarts restarts(options_of(10, 1));
  std::vector<double> pauses;
  for (int64_t i = 0; i < 8; ++i) pauses.push_back(restarts.after(crash("x", i)).pause);
  CHECK(pauses == std::vector<double>{1, 2, 4, 8, 16, 32, 60, 60});
}

TEST_CASE("RestartsAreCountedAndEnd") {
  Restarts restarts(options_of(1, 0));
  const auto first = restarts.after(crash("x", 1));
  CHECK(first.again);
  CHECK(first.note == "starting the ranks again (restart 1 of 1)");
  CHECK(!restarts.after(crash("x", 2)).again);
}

TEST_CASE("ASaveForgivesTheFailuresBeforeIt") {
  // 30 days with a failure in 8 hours each, and restarts for three in a row.
  Restarts restarts(options_of(3, 1));
  for (int64_t i = 0; i < 90; ++i) {
    restarts.note_saved("state-" + std::to_string(i));
    const auto decision = restarts.after(crash("x", i));
    CHECK(decision.again);
    CHECK(decision.pause == 1);
  }
  for (int64_t i = 90; i < 93; ++i) {  // nothing was saved since the last one
    restarts.note_saved("state-89");
    CHECK(restarts.after(crash("x", i)).again == (i < 92));
  }
}

// Two thousand times 30 days of a cluster in which something fails every 8 hours, without a clock.
TEST_CASE("ThirtyDaysWithAFailureEachEightHoursLoseLessThanATwentieth") {
  constexpr double kDays = 30 * 86400, kBetween = 8 * 3600;  // seconds
  constexpr double kSave = 600, kSaving = 5, kStart = 60;    // seconds: work, its save, a start
  std::mt19937_64 random(7);
  double least = kDays;
  int64_t given_up = 0;
  for (int64_t run = 0; run < 2000; ++run) {
    Restarts restarts(options_of(5, 1));
    double now = 0, saved = 0;
    while (true) {
      const double chance = (static_cast<double>(random() >> 11) + 0.5) / 9007199254740992.0;
      const double fails = now - std::log(chance) * kBetween;
      now += kStart;
      for (; now + kSave + kSaving <= std::min(fails, kDays); now += kSave + kSaving)
        saved += kSave;
      if (fails >= kDays) break;
      now = fails;
      restarts.note_saved(saved == 0 ? "" : std::to_string(saved));
      const auto decision = restarts.after(crash("x", static_cast<int64_t>(now)));
      given_up += decision.again ? 0 : 1;
      if (!decision.again) break;
      now += decision.pause;
    }
    least = std::min(least, saved);
  }
  CHECK(given_up == 0);
  CHECK(least >= 0.95 * kDays);
}

TEST_CASE("ARunThatCountsNoStateIsForgivenNothing") {
  Restarts restarts(options_of(1, 0));
  for (const bool again : {true, false}) {
    restarts.note_saved("");
    CHECK(restarts.after(crash("x", again ? 1 : 2)).again == again);
  }
}

TEST_CASE("TheSameFailureAtTheSameIterationIsNotTriedAThirdTime") {
  Restarts restarts(options_of(5, 0));
  CHECK(restarts.after(crash("signal 11", 40)).again);
  const auto second = restarts.after(crash("signal 11", 40));
  CHECK(!second.again);
  CHECK_THAT(second.note, Catch::Contains("failed twice at iteration 40 with the same cause"));
}

TEST_CASE("AnotherCauseOrAnotherIterationIsTriedAgain") {
  Restarts restarts(options_of(5, 0));
  CHECK(restarts.after(crash("signal 11", 40)).again);
  CHECK(restarts.after(crash("signal 11", 41)).again);
  CHECK(restarts.after(crash("signal 6", 41)).again);
  CHECK(restarts.after(crash("signal 11", 41)).again);  // not twice in a row
  CHECK(restarts.after(crash("", 0)).again);
  CHECK(restarts.after(crash("", 0)).again == false);  // five are used
}

TEST_CASE("WhatIsNotRestartableIsNotCounted") {
  Restarts restarts(options_of(5, 0));
  AttemptOutcome end = crash("x", 1);
  end.restartable = false;
  CHECK(!restarts.after(end).again);
  CHECK(restarts.after(end).note.empty());
}

TEST_CASE("ACauseIsTheSameWhicheverRankHadIt") {
  Death a;
  a.code = 1;
  a.rank = 1;
  a.pid = 100;
  a.iteration = 4;
  a.message = "rank 1: index 7 out of range";
  Death b = a;
  b.rank = 2;
  b.pid = 200;
  b.message = "rank 2: index 7 out of range";
  CHECK(cause_of(a) == cause_of(b));
  b.message = "rank 2: no such key";
  CHECK(cause_of(a) != cause_of(b));
}

TEST_CASE("AKillBeforeTheFirstIterationSaysNothingAboutTheRun") {
  Death death;
  death.signal = SIGKILL;
  CHECK(cause_of(death).empty());
  death.iteration = 3;
  CHECK(!cause_of(death).empty());
  death.iteration = 0;
  death.host_was_short = true;
  CHECK(!cause_of(death).empty());
}

TEST_CASE("TheSameFailureAtTheSameIterationEndsTheRun") {
  clear_shared_numbers();
  LaunchOptions options;
  options.max_restarts = 5;
  options.patience.first_restart = 0;
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            while (c.rank() == 0) pause();
                            ++shared_number(0);
                            c.slot().beat(40, 100);
                            c.board->set_run_folder("runs/7");
                            throw std::runtime_error("index 3 is out of range");
                          },
                          2,
                          options)
                          .wait();
  CHECK(result.code == 6);
  CHECK(shared_number(0) == 2);
  CHECK_THAT(
      result.err,
      Catch::Contains("failed twice at iteration 40 with the same cause: not restarted again "
                      "(1 used of 5 restarts)"));
  CHECK_THAT(result.err, Catch::EndsWith("next: resume runs/7\n"));
}

TEST_CASE("AStopEndsThePauseBeforeARestart") {
  LaunchOptions options;
  options.max_restarts = 5;
  options.patience.first_restart = 60;
  Launcher launcher(
      [](const RankContext&, const char*) -> int { return raise(SIGKILL); }, 1, options);
  REQUIRE(launcher.wait_for("starting the ranks again (restart 1 of 5) in 1m"));
  launcher.signal(SIGTERM);
  const auto result = launcher.wait();
  CHECK(result.code == 75);
  CHECK(result.after_signal < 20);
  CHECK_THAT(result.err, Catch::Contains("stopped before the ranks were started"));
  CHECK_THAT(result.err, Catch::EndsWith("next: resume \n"));
}

}  // namespace gantrain
