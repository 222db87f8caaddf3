// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/adaptive_strength.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tensor_checks.h"

using namespace gantrain;
using namespace gantrain::stylegan2;

namespace {

constexpr AdaptiveOptions kOptions{.target = .6, .interval = 4, .kimg = {1000}};
constexpr int64_t kBatch = 10;  // 40 images a move, of 1000: .04

at::Tensor sums(double signs, double count) { return torch::tensor({signs, count}); }

AdaptiveStrength started() { return {kOptions, kBatch, at::kCPU}; }

// p after each of `iterations` with the same mean sign.
std::vector<double> course(AdaptiveStrength& strength, double mean_sign, int64_t iterations) {
  std::vector<double> p;
  for (int64_t i = 0; i < iterations; ++i) {
    strength.end_iteration(i, sums(mean_sign * kBatch, kBatch));
    p.push_back(strength.p());
  }
  return p;
}

}  // namespace

TEST_CASE("PRisesByImagesOverKimgOnceAnInterval") {
  AdaptiveStrength strength = started();
  CHECK(strength.p() == 0);
  const std::vector<double> p = course(strength, .9, 8);
  for (size_t i = 0; i < p.size(); ++i) {
    CHECK(p[i] == Approx(.04 * static_cast<double>((i + 1) / 4)).margin(1e-15));
  }
}

TEST_CASE("PStopsAtOneAndAtZero") {
  AdaptiveStrength strength = started();
  const std::vector<double> up = course(strength, 1, 160);
  CHECK(std::is_sorted(up.begin(), up.end()));
  CHECK(up.back() == 1);
  CHECK(up[4 * 24 - 1] < 1);
  const std::vector<double> down = course(strength, .59, 160);
  CHECK(down[3] == Approx(.96));  // at once, however long p has been at its end
  CHECK(std::is_sorted(down.rbegin(), down.rend()));
  CHECK(down.back() == 0);
}

TEST_CASE("PStaysWithoutScoresAtTheTargetAndWithoutNumbers") {
  AdaptiveStrength strength = started();
  course(strength, 1, 8);
  const double p = strength.p();
  for (int64_t i = 0; i < 8; ++i) strength.end_iteration(i, sums(0, 0));
  CHECK(strength.p() == p);
  for (int64_t i = 0; i < 8; ++i) strength.end_iteration(i, sums(6, 10));
  CHECK(strength.p() == p);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t i = 0; i < 8; ++i) strength.end_iteration(i, sums(nan, 10));
  CHECK(strength.p() == p);
  course(strength, 1, 4);  // and comes back
  CHECK(strength.p() > p);
}

TEST_CASE("AMoveLooksAtAllScoresSinceTheLastOne") {
  AdaptiveStrength strength = started();
  for (int64_t i = 0; i < 3; ++i) strength.end_iteration(i, sums(10, 10));
  strength.end_iteration(3, sums(-10, 10));  // mean .5 < .6
  CHECK(strength.p() == 0);
  for (int64_t i = 4; i < 7; ++i) strength.end_iteration(i, sums(10, 10));
  strength.end_iteration(7, sums(-5, 10));  // mean .625
  CHECK(strength.p() == Approx(.04));
}

TEST_CASE("SignsAreSummedAndCounted") {
  const at::Tensor scores = torch::tensor({3.f, -.1f, 0.f, 2.f, 5.f}).requires_grad_(true);
  const at::Tensor s = AdaptiveStrength::signs(scores);
  CHECK(at::equal(s, torch::tensor({2.f, 5.f})));
  CHECK_FALSE(s.requires_grad());
}

TEST_CASE("TheWarningComesOnceFromPointEightOn") {
  AdaptiveStrength strength = started();
  course(strength, 1, 4 * 19);
  CHECK(strength.p() == Approx(.76));
  CHECK_FALSE(strength.should_warn());
  course(strength, 1, 4 * 2);
  CHECK(strength.should_warn());
  CHECK_FALSE(strength.should_warn());
}

TEST_CASE("ARestoredStrengthGoesOnAsTheSavedOne") {
  AdaptiveStrength saved = started(), restored = started();
  course(saved, 1, 22);  // in the middle of an interval
  const NamedTensors from = saved.state(), to = restored.state();
  REQUIRE(from.size() == to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    CHECK(from[i].first == to[i].first);
    to[i].second.copy_(from[i].second);
  }
  for (int64_t i = 22; i < 26; ++i) {
    saved.end_iteration(i, sums(2, 10));
    restored.end_iteration(i, sums(2, 10));
    CHECK(restored.p() == saved.p());
  }
}
