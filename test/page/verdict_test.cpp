// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>

#include "page/run_page.h"
#include "util/text.h"

namespace gantrain {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

Curve level(double value, int ticks = 50) {
  Curve curve;
  for (int i = 1; i <= ticks; ++i) curve.emplace_back(4 * i, value);
  return curve;
}

RunRecord healthy(const std::string& status = "running") {
  RunRecord run;
  run.status = status;
  run.stats = {{"Loss/G/loss", level(1.5)},
               {"Loss/D/loss", level(0.5)},
               {"Progress/distinctness", level(0.6)}};
  run.settings = {{"metrics.collapse_below", "0.1", ""},
                  {"metrics.collapse_times", "3", ""},
                  {"metrics.collapse_after", "20", ""}};
  return run;
}

Verdict first(const RunRecord& run) { return judge(run).front(); }

}  // namespace

TEST_CASE("AHealthyRunIsGood") {
  const std::vector<Verdict> verdicts = judge(healthy());
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].judgement == Judgement::kGood);
  CHECK(verdicts[0].reason ==
        "at 200 kimg losses are finite and do not explode; pictures are 0.60 as distinct from each "
        "other as the data's");
  CHECK(first(healthy("done 200 kimg")).judgement == Judgement::kGood);
}

TEST_CASE("WhatHasJustBegunIsYoungWhateverItsPicturesAre") {
  RunRecord run = healthy();
  for (auto& [name, curve] : run.stats) curve.resize(5);
  run.stats["Progress/distinctness"] = level(0.01, 5);
  CHECK(first(run).judgement == Judgement::kYoung);
  CHECK(first(run).reason == "20 kimg, and networks that have just begun are judged after 20");
  run.stats.clear();
  CHECK(first(run).reason == "no tick has been reported yet");
}

TEST_CASE("CollapseIsJudgedAsTheAlarmDoes") {
  RunRecord run = healthy();
  Curve& distinct = run.stats["Progress/distinctness"];
  distinct[48].second = distinct[49].second = 0.05;
  CHECK(first(run).judgement == Judgement::kGood);  // twice in a row is not three times
  distinct[47].second = 0.09;
  CHECK(first(run).judgement == Judgement::kCollapsed);
  CHECK(first(run).rule == "collapse alarm");
  CHECK(first(run).reason ==
        "for 3 measurements pictures have been less distinct than 0.1 of the data's (now 0.050)");
  distinct[49].second = kNotANumber;
  CHECK(first(run).judgement == Judgement::kGood);
  distinct[49].second = 0.05;
  run.settings[0].value = "0";  // not judged
  CHECK(first(run).judgement == Judgement::kGood);
  run.settings.clear();
  CHECK(first(run).judgement == Judgement::kGood);
}

TEST_CASE("WithoutDistinctnessMsSsimTellsCollapse") {
  RunRecord run = healthy();
  run.metrics["msssim"] = {{0, 0.99}, {200, 0.97}};
  CHECK(first(run).judgement == Judgement::kGood);  // distinctness knows better
  run.stats.erase("Progress/distinctness");
  CHECK(first(run).judgement == Judgement::kCollapsed);
  CHECK(first(run).reason == "MS-SSIM 0.97 of the last fakes is above 0.9");
  run.metrics["msssim"].back().second = 0.89;
  CHECK(first(run).judgement == Judgement::kGood);
}

TEST_CASE("LossesThatAreNotFiniteOrExplodeAreDivergence") {
  RunRecord run = healthy();
  run.stats["Loss/D/loss"].back().second = kNotANumber;
  CHECK(first(run).judgement == Judgement::kDiverged);
  CHECK(first(run).reason == "Loss/D/loss is not finite at 200 kimg");
  run = healthy();
  Curve& loss = run.stats["Loss/G/loss"];
  loss[48].second = loss[49].second = -1e4;
  CHECK(first(run).judgement == Judgement::kGood);
  loss[47].second = 1e4;
  CHECK(first(run).judgement == Judgement::kDiverged);
  CHECK(first(run).rule == "exploding loss");
  // A critic's losses are large from the beginning.
  run.stats["Loss/G/loss"] = level(-5000);
  CHECK(first(run).judgement == Judgement::kGood);
}

// What lasts is not healthy because it lasts, nor because there was never anything else.
TEST_CASE("AnExplosionStaysOne") {
  for (const int after : {3, 8, 12, 30, 300}) {
    CAPTURE(after);
    RunRecord run = healthy();
    run.stats["Loss/G/loss"] = level(1.2, 12);
    for (int i = 0; i < after; ++i) run.stats["Loss/G/loss"].emplace_back(100 + i, 900);
    CHECK(first(run).judgement == Judgement::kDiverged);
  }
  for (const int ticks : {1, 2, 7, 50}) {
    CAPTURE(ticks);
    RunRecord run = healthy("done 26 kimg");
    run.stats["Loss/G/loss"] = level(6e8, ticks);
    CHECK(first(run).judgement == Judgement::kDiverged);
  }
  RunRecord run = healthy();
  run.stats["Loss/D/loss"] = level(-80);  // a critic's
  CHECK(first(run).judgement == Judgement::kGood);
}

TEST_CASE("StepsThatAreAllLeftOutAreDivergence") {
  RunRecord run = healthy();
  run.stats["AMP/G/skipped"] = level(0);
  CHECK(first(run).judgement == Judgement::kGood);
  run.stats["AMP/G/skipped"].back().second = 79;
  CHECK(first(run).judgement == Judgement::kGood);  // others were made
  run.stats["Loss/G/loss"].pop_back();
  CHECK(first(run).judgement == Judgement::kDiverged);
  run.stats.erase("Loss/G/loss");
  CHECK(first(run).judgement == Judgement::kDiverged);
  run.stats.erase("Loss/D/loss");
  run.stats.erase("AMP/G/skipped");
  CHECK(first(run).reason.find("no loss was reported") != std::string::npos);
}

TEST_CASE("HowARunEndedComesFirst") {
  const auto end = [](const std::string& status) { return judge(healthy(status)); };
  const std::string rank = "failed with exit code 6: rank 1 (vm, pid 7) ";
  CHECK(end(rank + "died of signal 9 (SIGKILL) in iteration 3")[0].judgement == Judgement::kKilled);
  CHECK(end(rank + "died of signal 11 (SIGSEGV)")[0].judgement == Judgement::kFailed);
  CHECK(end(rank + "was silent for 60s")[0].judgement == Judgement::kFailed);
  CHECK(end("failed with exit code 137: the launcher died")[0].rule == "signal 9");
  CHECK(end("failed with exit code 137")[0].reason == "exit code 137");
  CHECK(end("failed with exit code 134: crash")[0].judgement == Judgement::kFailed);
  CHECK(end("failed with exit code 8: disk full")[0].reason == "disk full");
  CHECK(end("failed with exit code 5: Loss/G/loss is not finite")[0].judgement ==
        Judgement::kDiverged);
  CHECK(end("ended 40 kimg (collapse: 0.01), state saved")[0].judgement == Judgement::kCollapsed);
  CHECK(end("stopped 40 kimg (STOP), resumable")[0].judgement == Judgement::kStopped);
  for (const char* status : {"failed with exit code 8: x", "stopped 40 kimg (STOP), resumable"}) {
    REQUIRE(end(status).size() == 2);
    CHECK(end(status)[1].judgement == Judgement::kGood);
  }
}

TEST_CASE("AStopSaysLessThanACollapse") {
  RunRecord run = healthy("stopped 200 kimg (STOP), resumable");
  run.stats["Progress/distinctness"] = level(0.01);
  CHECK(judge(run)[0].judgement == Judgement::kCollapsed);
  CHECK(judge(run)[1].judgement == Judgement::kStopped);
}

TEST_CASE("ExitCodesAreReadFromStatus") {
  CHECK(exit_code_of("failed with exit code 6: x") == 6);
  CHECK(exit_code_of("failed with exit code 137") == 137);
  for (const char* status : {"", "running", "done 3 kimg", "failed with exit code ", "failed"})
    CHECK(!exit_code_of(status));
}

}  // namespace gantrain
