// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "page/run_page.h"
#include "support/catch.h"
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

TEST_CASE("ARunWithoutAFailureIsNotCalledGood") {
  const std::vector<Verdict> verdicts = judge(healthy());
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].judgement == Judgement::kNoFailure);
  CHECK(verdicts[0].word == "no failure found");
  CHECK(verdicts[0].reason ==
        "quality was not measured; losses are finite and do not explode; pictures are 0.60 as "
        "distinct from each other as the data's");
  CHECK(first(healthy("done 200 kimg")).judgement == Judgement::kNoFailure);
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

TEST_CASE("AFallOfDistinctnessIsCollapseToo") {
  RunRecord run = healthy();
  Curve& distinct = run.stats["Progress/distinctness"];
  for (auto& at : distinct) at.second = 0.2;
  CHECK(first(run).judgement == Judgement::kNoFailure);  // it has never been higher
  distinct.front().second = 0.37;
  CHECK(first(run).judgement == Judgement::kCollapsed);
  CHECK(first(run).reason ==
        "for 3 measurements pictures have been less distinct than 0.247 of the data's (now 0.200)");
  for (auto& at : distinct) at.second = at.first == 4 ? 0.9 : 0.26;
  CHECK(first(run).judgement == Judgement::kNoFailure);
}

TEST_CASE("CollapseIsJudgedAsTheAlarmDoes") {
  RunRecord run = healthy();
  Curve& distinct = run.stats["Progress/distinctness"];
  distinct[48].second = distinct[49].second = 0.05;
  CHECK(first(run).judgement == Judgement::kNoFailure);  // twice in a row is not three times
  distinct[47].second = 0.09;
  CHECK(first(run).judgement == Judgement::kCollapsed);
  CHECK(first(run).rule == "collapse alarm");
  CHECK(first(run).reason ==
        "for 3 measurements pictures have been less distinct than 0.1 of the data's (now 0.050)");
  distinct[49].second = kNotANumber;
  CHECK(first(run).judgement == Judgement::kNoFailure);
  distinct[49].second = 0.05;
  run.settings[0].value = "0";  // not judged
  CHECK(first(run).judgement == Judgement::kNoFailure);
  run.settings.clear();
  CHECK(first(run).judgement == Judgement::kNoFailure);
}

TEST_CASE("WithoutDistinctnessMsSsimTellsCollapse") {
  RunRecord run = healthy();
  run.metrics["msssim"] = {{0, 0.99}, {200, 0.97}};
  CHECK(first(run).judgement == Judgement::kNoFailure);  // distinctness knows better
  run.stats.erase("Progress/distinctness");
  CHECK(first(run).judgement == Judgement::kCollapsed);
  CHECK(first(run).reason == "MS-SSIM 0.97 of the last fakes is above 0.9");
  run.metrics["msssim"].back().second = 0.89;
  CHECK(first(run).judgement == Judgement::kNoFailure);
}

TEST_CASE("LossesThatAreNotFiniteOrExplodeAreDivergence") {
  RunRecord run = healthy();
  run.stats["Loss/D/loss"].back().second = kNotANumber;
  CHECK(first(run).judgement == Judgement::kDiverged);
  CHECK(first(run).reason == "Loss/D/loss is not finite at 200 kimg");
  run = healthy();
  Curve& loss = run.stats["Loss/G/loss"];
  loss[48].second = loss[49].second = -1e4;
  CHECK(first(run).judgement == Judgement::kNoFailure);
  loss[47].second = 1e4;
  CHECK(first(run).judgement == Judgement::kDiverged);
  CHECK(first(run).rule == "exploding loss");
  // A critic's losses are large from the beginning.
  run.stats["Loss/G/loss"] = level(-5000);
  CHECK(first(run).judgement == Judgement::kNoFailure);
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
  CHECK(first(run).judgement == Judgement::kNoFailure);
}

TEST_CASE("StepsThatAreAllLeftOutAreDivergence") {
  RunRecord run = healthy();
  run.stats["AMP/G/skipped"] = level(0);
  CHECK(first(run).judgement == Judgement::kNoFailure);
  run.stats["AMP/G/skipped"].back().second = 79;
  CHECK(first(run).judgement == Judgement::kNoFailure);  // others were made
  run.stats["Loss/G/loss"].pop_back();
  CHECK(first(run).judgement == Judgement::kDiverged);
  run.stats.erase("Loss/G/loss");
  CHECK(first(run).judgement == Judgement::kDiverged);
  run.stats.erase("Loss/D/loss");
  run.stats.erase("AMP/G/skipped");
  CHECK(first(run).reason.find("no loss was reported") != std::string::npos);
}

namespace {

// A curve of 50 ticks, or measurements, of 4 kimg by the share of the run that is done.
template <class Of>
Curve curve_of(Of&& value) {
  Curve curve;
  for (int i = 1; i <= 50; ++i) curve.emplace_back(4 * i, value(i / 50.0));
  return curve;
}

// What a healthy run reports whose networks train and whose SWD is measured.
RunRecord measured(const Curve& swd, const std::string& status = "running") {
  RunRecord run = healthy(status);
  run.settings.push_back({"recipe", "stylegan2", ""});
  run.stats["Loss/scores/real"] = level(1.1);
  run.stats["Loss/scores/fake"] = level(-0.9);
  run.stats["Weights/G/moved"] = level(0.01);
  run.stats["Weights/D/moved"] = level(0.01);
  run.stats["Gradients/G/size"] = level(0.2);
  run.metrics["swd"] = swd;
  return run;
}

Curve falling() {
  return curve_of([](double done) { return 80 - 48 * done; });
}

// As measured with --set G.lr=0 on icons: D learns to tell noise from pictures at once.
void let_D_win(RunRecord& run) {
  run.stats["Loss/D/loss"] = curve_of([](double done) { return 1.4 * std::exp(-12 * done); });
  run.stats["Loss/G/loss"] = curve_of([](double done) { return 1 + 11 * done; });
  run.stats["Loss/scores/real"] = curve_of([](double done) { return 12 * done; });
  run.stats["Loss/scores/fake"] = curve_of([](double done) { return -12 * done; });
}

struct Kind {
  std::string word, rule, part;  // of the reason
};

void check_kind(const RunRecord& run, const Kind& expected) {
  const Verdict verdict = first(run);
  CAPTURE(verdict.word, verdict.rule, verdict.reason);
  CHECK(verdict.word == expected.word);
  CHECK(verdict.rule == expected.rule);
  CHECK(verdict.reason.find(expected.part) != std::string::npos);
  CHECK_FALSE(definition_of(verdict.rule).empty());
}

}  // namespace

// Runs of known kinds: fresh, frozen G, frozen D, D has won, collapsed, diverged late, learning and
// done well, and one whose pictures stay noise.
TEST_CASE("KnownKindsOfRunsAreToldApart") {
  RunRecord run = measured(falling());
  check_kind(
      run, {"learning", "quality that rises", "SWD fell by 60 % since kimg 4, from 79.04 to 32 "});
  for (auto& [name, curve] : run.stats) curve.resize(4);
  check_kind(run, {"still young", "too early to tell", "16 kimg"});

  run = measured(curve_of([](double) { return 81.5; }));
  let_D_win(run);
  run.stats["Weights/G/moved"] = level(0);
  check_kind(run,
             {"G does not move", "weights that do not move", "not moved in the last 50 ticks"});
  run = measured(curve_of([](double done) { return 80 + std::sin(40 * done); }));
  run.stats["Weights/D/moved"] = level(0);
  check_kind(run, {"D does not move", "weights that do not move", "the weights of D"});

  run = measured(curve_of([](double done) { return done < 0.3 ? 80 - 80 * done : 60; }));
  let_D_win(run);
  check_kind(run, {"D has won", "D has won", "Loss/G/loss is 12"});

  run = measured(curve_of([](double done) { return 80 - 20 * done; }));
  run.stats["Progress/distinctness"] = curve_of([](double done) { return 0.5 - 0.49 * done; });
  check_kind(run, {"collapsed", "collapse alarm", "less distinct than 0.1"});

  run = measured(falling());
  for (size_t i = 46; i < 50; ++i) run.stats["Loss/D/loss"][i].second = 4000;
  check_kind(run, {"diverged", "exploding loss", "Loss/D/loss of 4e+03"});

  const Curve settled = curve_of([](double done) { return 12 + 68 * std::exp(-12 * done); });
  check_kind(
      measured(settled, "done 200 kimg"),
      {"levelled off", "quality that has stopped rising", "% since kimg 4, from 65.49 to 12 "});
  check_kind(measured(curve_of([](double done) { return 80 + std::sin(40 * done); })),
             {"not improving", "quality that does not rise", "SWD was 80.72 at kimg 4"});
}

TEST_CASE("DHasNotWonWhileQualityRisesNorForAMoment") {
  RunRecord run = measured(falling());
  let_D_win(run);
  CHECK(first(run).word == "learning");
  run.metrics.clear();
  CHECK(first(run).word == "D has won");
  for (size_t i = 40; i < 45; ++i) run.stats["Loss/D/loss"][i].second = 0.5;
  CHECK(first(run).word == "no failure found");
  let_D_win(run);
  for (auto& [kimg, score] : run.stats["Loss/scores/real"]) score = -10;
  for (auto& [kimg, score] : run.stats["Loss/scores/fake"]) score = -12;
  CHECK(first(run).word == "no failure found");
  let_D_win(run);
  run.settings.back().value = "pggan";  // a critic's losses have no equilibrium
  CHECK(first(run).word == "no failure found");
}

TEST_CASE("GradientsThatVanishAreAStandstill") {
  RunRecord run = measured({});
  CHECK(first(run).word == "no failure found");
  run.stats["Gradients/G/size"] = curve_of([](double done) { return std::exp(-20 * done); });
  check_kind(run, {"D has won", "gradients that vanish", "and were 0.67"});
  run.stats["Gradients/G/size"] = level(0);
  CHECK(first(run).rule == "gradients that vanish");
  run.stats["Gradients/G/size"] = curve_of([](double done) { return 1 - 0.99 * done; });
  CHECK(first(run).word == "no failure found");
}

TEST_CASE("AFrozenGIsFoundWhileTheRunIsYoungAndInRunsThatDoNotTellHowWeightsMove") {
  RunRecord run = measured({});
  for (auto& [name, curve] : run.stats) curve.resize(3);
  run.stats["Weights/G/moved"] = level(1e-9, 3);
  CHECK(first(run).word == "G does not move");
  run.stats["Weights/G/moved"].back().second = 0.01;
  CHECK(first(run).word == "still young");
  run = measured(level(81.5, 3));
  run.stats.erase("Weights/G/moved");
  check_kind(run, {"G does not move", "pictures that do not change", "of SWD are the same number"});
  run.metrics["swd"].pop_back();
  CHECK(first(run).word == "no failure found");
}

TEST_CASE("FewMeasurementsTellLittle") {
  RunRecord run = measured({{0, 80}});
  CHECK(first(run).word == "no failure found");
  CHECK(first(run).reason.find("is not known: SWD was 80 at kimg 0") != std::string::npos);
  run.metrics["swd"] = {{0, 80}, {200, 78}};
  CHECK(first(run).word == "no failure found");
  run.metrics["swd"] = {{0, 80}, {200, kNotANumber}};
  CHECK(first(run).word == "no failure found");
  run.metrics["swd"] = {{0, 80}, {200, 32}};
  CHECK(first(run).word == "learning");
  CHECK(first(run).reason.find("SWD fell by 60 % since kimg 0, from 80 to 32 at kimg 200") == 0);
  CHECK(first(run).reason.find("(now") == std::string::npos);
  run.metrics["swd"] = {{0, 80}, {50, 70}, {100, 60}, {150, 50}, {200, 32}, {210, 36}};
  CHECK(first(run).reason.find("to 32 at kimg 200 (now 36);") != std::string::npos);
  run.metrics["fid"] = {{0, 300}, {200, 290}};  // known better than SWD
  CHECK(first(run).word == "no failure found");
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
  CHECK(end("stopped 40 kimg (STOP), resumable")[0].reason == "at 40 kimg (STOP), resumable");
  for (const char* status : {"failed with exit code 8: x", "stopped 40 kimg (STOP), resumable"}) {
    REQUIRE(end(status).size() == 2);
    CHECK(end(status)[1].judgement == Judgement::kNoFailure);
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
