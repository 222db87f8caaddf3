// SPDX-License-Identifier: Apache-2.0
#include "tune/race.h"

#include <algorithm>
#include <cmath>

#include "support/catch.h"
#include "support/made_run.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {
namespace {

Race race_of(const std::vector<std::optional<double>>& values, const std::string& metric = "swd") {
  Race race{.command = "gantrain tune", .flags = {"--preset", "x"}, .metric = metric};
  race.rungs = plan_rungs(static_cast<int64_t>(values.size()), 100'000, 0.3, 16);
  for (size_t i = 0; i < values.size(); ++i) {
    Racer racer{.candidate = {std::to_string(i + 1), {"gamma=" + std::to_string(i + 1)}}};
    racer.values = {{10, values[i], ""}};
    race.racers.push_back(racer);
  }
  return race;
}

std::string places(const Race& race) {
  std::string all;
  for (const Racer& racer : race.racers)
    all += std::string(names(racer.place)[static_cast<size_t>(racer.place)]) + " ";
  return all;
}

TEST_CASE("ThoseWhoLoseTrainTogetherForTheirShareOfOneRun") {
  for (const int64_t candidates : {2, 3, 4, 5, 9, 16, 64}) {
    for (const double extra : {0.1, 0.3, 1.}) {
      const int64_t length = 4'000'000;
      const std::vector<Rung> rungs = plan_rungs(candidates, length, extra, 32);
      CAPTURE(candidates, extra);
      CHECK(images_of(rungs) <= length * (1 + extra));
      CHECK(images_of(rungs) >= length * (1 + 0.85 * extra));
      CHECK(rungs.back().images == length);
      CHECK(rungs.back().candidates == 1);
      CHECK(rungs.front().candidates == candidates);
      for (size_t i = 1; i < rungs.size(); ++i) {
        CHECK(rungs[i].images >= rungs[i - 1].images);
        CHECK(rungs[i].candidates == rungs[i - 1].kept);
      }
    }
  }
}

TEST_CASE("ThreeCandidatesTakeThreeTenthsMore") {
  const std::vector<Rung> rungs = plan_rungs(3, 1'000'000, 0.3, 32);
  REQUIRE(rungs.size() == 3);
  CHECK(rungs[0].images == 100'000);
  CHECK(rungs[0].kept == 2);
  CHECK(rungs[1].images == 200'000);
  CHECK(rungs[1].kept == 1);
  CHECK(images_of(rungs) == 1'300'000);
}

TEST_CASE("ARaceTooShortForABatchIsRefused") {
  CHECK_THROWS_WITH(plan_rungs(64, 10'000, 0.3, 32), Catch::Contains("fewer candidates"));
}

TEST_CASE("TheWorseHalfIsGivenUpWithTheReason") {
  Race race = race_of({30., 10., 20.});
  decide(race, 0, 5);
  CHECK(places(race) == "lost racing racing ");
  CHECK(race.racers[0].why == "swd 30 at 10 kimg, place 3 of 3; best: swd 10 of gamma 2");
  race.racers[1].values.push_back({20, 9., ""});
  race.racers[2].values.push_back({20, 8., ""});
  decide(race, 1, 5);
  CHECK(places(race) == "lost lost racing ");
  CHECK(winner_of(race).candidate.name == "3");
  race.racers[2].values.push_back({100, 5., ""});
  decide(race, 2, 5);
  CHECK(places(race) == "lost lost won ");
  CHECK(race.winner == "3");
  CHECK(winner_of(race).why == "swd 5 at 100 kimg");
}

TEST_CASE("TheHigherValueWinsWhereThatIsBetter") {
  Race race = race_of({0.3, 0.1, 0.2}, "diversity");
  decide(race, 0, 5);
  CHECK(places(race) == "racing lost racing ");
}

TEST_CASE("EqualOnesKeepTheirOrder") {
  Race race = race_of({10., 10., 10.});
  decide(race, 0, 5);
  CHECK(places(race) == "racing racing lost ");
}

TEST_CASE("WhatHasNoFiniteValueLoses") {
  Race race = race_of({std::nullopt, 10., 900.});
  decide(race, 0, 5);
  CHECK(places(race) == "lost racing racing ");
  CHECK_THAT(race.racers[0].why, Catch::StartsWith("no finite swd"));
}

TEST_CASE("TroubleLosesUnlessAllHaveIt") {
  Race race = race_of({10., 20., 30.});
  race.racers[0].values[0].trouble = "collapsed: all alike";
  decide(race, 0, 5);
  CHECK(places(race) == "lost racing racing ");
  CHECK_THAT(race.racers[0].why, Catch::EndsWith("; collapsed: all alike"));
  Race all = race_of({10., 20., 30.});
  for (Racer& racer : all.racers) racer.values[0].trouble = "collapsed: all alike";
  decide(all, 0, 5);
  CHECK(places(all) == "racing racing lost ");
}

TEST_CASE("OneWhoFailedIsOutAndTheOthersGoOn") {
  Race race = race_of({10., 20., 30.});
  fail_racer(race.racers[0], 5, "nan");
  decide(race, 0, 5);
  CHECK(places(race) == "failed racing racing ");
}

TEST_CASE("NobodyLeftIsAnErrorWithEveryReason") {
  Race race = race_of({10., 20.});
  fail_racer(race.racers[0], 7, "out of memory");
  fail_racer(race.racers[1], 5, "");
  try {
    decide(race, 0, 7);
    FAIL("decided");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kOutOfMemory);
    CHECK_THAT(e.what(), Catch::Contains("gamma 1: out of memory"));
    CHECK_THAT(e.what(), Catch::Contains("exit code 5"));
  }
}

TEST_CASE("ACandidatesOwnFaultIsToldFromTheMachines") {
  for (const int own : {2, 3, 5, 7}) CHECK(loses_by(own));
  for (const int other : {0, 1, 4, 6, 8, 75, 130, 137}) CHECK(!loses_by(other));
}

TEST_CASE("ARaceComesBackFromItsFile") {
  const TemporaryFolder folder;
  CHECK(!read_race(folder.path()));
  Race race = race_of({30., std::nullopt, 20.});
  decide(race, 0, 5);
  write_race(folder.path(), race);
  const auto back = read_race(folder.path());
  REQUIRE(back);
  CHECK(message_of(*back) == message_of(race));
  CHECK(difference(*back, race) == "");
  Race other = race;
  other.flags.push_back("--mirror");
  CHECK(difference(other, race) == "the flags of the training");
  other = race;
  other.metric = "msssim";
  CHECK(difference(other, race) == "--by");
  other = race;
  other.rungs.front().images -= 1;
  CHECK_THAT(difference(other, race), Catch::Contains("--kimg"));
  other = race;
  other.racers.pop_back();
  CHECK_THAT(difference(other, race), Catch::Contains("--try"));
  for (const char* broken : {"{", "{}", "[]", R"({"command": 1})"}) {
    CAPTURE(broken);
    write_file(folder / kRaceFile, broken);
    try {
      read_race(folder.path());
      FAIL("read");
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kInput);
      CHECK_THAT(e.what(), Catch::Contains(kRaceFile));
    }
  }
}

TEST_CASE("ARunsFilesTellItsValueAtARung") {
  const TemporaryFolder folder;
  make_run(folder / "a");
  const Race race = race_of({1., 2.});
  const RungValue value = value_at_rung(folder / "a", race);
  CHECK(value.value == 50);
  CHECK(value.kimg == 0);
  CHECK(value.trouble == "");
  CHECK(!value_at_rung(folder / "none", race).value);
}

TEST_CASE("GpusAreSharedAmongCandidates") {
  using Words = std::vector<std::string>;
  CHECK(race_places(0, 1, "") == Words{""});
  CHECK(race_places(3, 1, "") == Words{"0", "1", "2"});
  CHECK(race_places(5, 2, "") == Words{"0,1", "2,3"});
  CHECK(race_places(2, 1, "4,7") == Words{"4", "7"});
  CHECK(race_places(1, 1, "GPU-8932f937") == Words{"GPU-8932f937"});
}

TEST_CASE("ACandidateIsAnOrdinaryTraining") {
  const Race race = race_of({1., 2., 3.});
  const RaceSite site{.folder = "race",
                      .places = {""},
                      .more = {"--nproc", "1"},
                      .while_racing = {"--stop-on", "collapse"}};
  CHECK(arguments_of(race, site, 1, 0) == std::vector<std::string>{"train",
                                                                   "--preset",
                                                                   "x",
                                                                   "--nproc",
                                                                   "1",
                                                                   "--stop-on",
                                                                   "collapse",
                                                                   "--set",
                                                                   "gamma=2",
                                                                   "--run-dir",
                                                                   "race/2",
                                                                   "--set",
                                                                   "train.kimg=10"});
  const std::vector<std::string> last = arguments_of(race, site, 1, 2);
  CHECK(std::ranges::find(last, "--stop-on") == last.end());
  CHECK(last.back() == "train.kimg=100");
}

}  // namespace
}  // namespace gantrain
