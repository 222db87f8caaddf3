// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "support/catch.h"
#include "tune/finetune.h"

namespace gantrain {
namespace {

// Measurements each 10 kimg.
Curve made(const std::vector<double>& values) {
  Curve curve;
  for (size_t i = 0; i < values.size(); ++i)
    curve.emplace_back(10. * static_cast<double>(i), values[i]);
  return curve;
}

Turn turn(const std::vector<double>& values, int64_t returned = 0) {
  return view_course(made(values), "swd", returned).turn;
}

TEST_CASE("WhatImprovesGoesOn") {
  CHECK(turn({}) == Turn::kGoOn);
  CHECK(turn({50}) == Turn::kGoOn);
  CHECK(turn({50, 40, 30, 20, 19, 18, 17, 16, 15, 14, 13, 12}) == Turn::kGoOn);
  CHECK(turn({50, 40, 30, 40, 40, 40, 29}) == Turn::kGoOn);  // fell, and came back
}

TEST_CASE("QualityThatFallsForLongGoesBackToTheBest") {
  const CourseView view = view_course(made({50, 30, 40, 42, 44, 46}), "swd", 0);
  CHECK(view.turn == Turn::kGoBack);
  CHECK(view.best_kimg == 10);
  CHECK_THAT(view.why,
             Catch::Contains("swd 46 at 50 kimg") && Catch::Contains("swd 30 at 10 kimg"));
  CHECK(turn({50, 30, 40, 42, 44}) == Turn::kGoOn);      // not yet for long
  CHECK(turn({50, 30, 40, 42, 32, 46}) == Turn::kGoOn);  // one of them was nearly as good
}

TEST_CASE("ItGoesBackTwiceAtMost") {
  const std::vector<double> falls = {50, 30, 40, 42, 44, 46};
  CHECK(turn(falls, 1) == Turn::kGoBack);
  CHECK(turn(falls, 2) == Turn::kEnd);
  CHECK(view_failure(made(falls), "swd", 1, "collapse").turn == Turn::kGoBack);
  const CourseView last = view_failure(made(falls), "swd", 2, "collapse");
  CHECK(last.turn == Turn::kEnd);
  CHECK(last.why == "collapse");
  CHECK(last.best_kimg == 10);
}

TEST_CASE("ItEndsWhereNothingImproves") {
  const CourseView view = view_course(made({50, 30, 31, 32, 31, 32, 31, 32, 31, 32}), "swd", 0);
  CHECK(view.turn == Turn::kEnd);
  CHECK_THAT(view.why, Catch::Contains("nothing better in 8 measurements"));
  CHECK(turn({50, 30, 31, 32, 31, 32, 31, 32, 31}) == Turn::kGoOn);
}

TEST_CASE("MeasurementsCloseTogetherSayNothingYet") {
  Curve close;
  for (const auto& [kimg, value] : made({50, 30, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58}))
    close.emplace_back(0.05 * kimg, value);  // the best is at 0.5 kimg, the last at 5.5
  CHECK(view_course(close, "swd", 0).turn == Turn::kGoOn);
  close.emplace_back(8.4, 60);
  CHECK(view_course(close, "swd", 0).turn == Turn::kGoOn);
  close.emplace_back(8.5, 60);
  CHECK(view_course(close, "swd", 0).turn == Turn::kGoBack);
}

TEST_CASE("HigherIsBetterWhereTheMetricSaysSo") {
  CHECK(view_course(made({0.1, 0.5, 0.3, 0.3, 0.3, 0.3}), "diversity", 0).turn == Turn::kGoBack);
  CHECK(view_course(made({0.5, 0.4, 0.3, 0.2, 0.1, 0.6}), "diversity", 0).turn == Turn::kGoOn);
}

TEST_CASE("WhatIsNotFiniteIsNoMeasurement") {
  const double nan = std::nan("");
  CHECK(view_course(made({nan, nan}), "swd", 0).best_kimg == 0);
  CHECK(turn({50, 30, nan, nan, nan, nan, nan, nan, nan, nan}) == Turn::kGoOn);
}

}  // namespace
}  // namespace gantrain
