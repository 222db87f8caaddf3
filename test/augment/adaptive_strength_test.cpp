// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <random>

#include "augment/augment.h"
#include "core/device.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

constexpr AdaptiveOptions kOptions{.target = .6, .interval = 4, .kimg = {1000}};
constexpr int64_t kBatch = 10;  // 40 images a move, of 1000: .04

at::Tensor sums(double signs, double count) { return torch::tensor({signs, count}); }

AdaptiveStrength started() { return {kOptions, kBatch, at::kCPU}; }

double p_of(const AdaptiveStrength& strength) { return strength.p().item<double>(); }

void iterate(AdaptiveStrength& strength, int64_t iteration, const at::Tensor& sums) {
  strength.add(sums);
  strength.end_iteration(iteration);
}

// p after each of `iterations` with the same mean sign.
std::vector<double> course(AdaptiveStrength& strength, double mean_sign, int64_t iterations) {
  std::vector<double> p;
  for (int64_t i = 0; i < iterations; ++i) {
    iterate(strength, i, sums(mean_sign * kBatch, kBatch));
    p.push_back(p_of(strength));
  }
  return p;
}

}  // namespace

TEST_CASE("PRisesByImagesOverKimgOnceAnInterval") {
  AdaptiveStrength strength = started();
  CHECK(p_of(strength) == 0);
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
  const double p = p_of(strength);
  for (int64_t i = 0; i < 8; ++i) iterate(strength, i, sums(0, 0));
  CHECK(p_of(strength) == p);
  for (int64_t i = 0; i < 8; ++i) iterate(strength, i, sums(6, 10));
  CHECK(p_of(strength) == p);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t i = 0; i < 8; ++i) iterate(strength, i, sums(nan, 10));
  CHECK(p_of(strength) == p);
  course(strength, 1, 4);  // and comes back
  CHECK(p_of(strength) > p);
}

TEST_CASE("AMoveLooksAtAllScoresSinceTheLastOne") {
  AdaptiveStrength strength = started();
  for (int64_t i = 0; i < 3; ++i) iterate(strength, i, sums(10, 10));
  iterate(strength, 3, sums(-10, 10));  // mean .5 < .6
  CHECK(p_of(strength) == 0);
  for (int64_t i = 4; i < 7; ++i) iterate(strength, i, sums(10, 10));
  iterate(strength, 7, sums(-5, 10));  // mean .625
  CHECK(p_of(strength) == Approx(.04));
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
  CHECK(p_of(strength) == Approx(.76));
  CHECK_FALSE(strength.crossed_warning());
  course(strength, 1, 4 * 2);
  CHECK(strength.crossed_warning() == p_of(strength));
  CHECK_FALSE(strength.crossed_warning());
}

TEST_CASE("ASetStrengthIsTheStrengthInTheSameTensor") {
  AdaptiveStrength strength = started();
  const at::Tensor p = strength.p();
  strength.set(.3);
  CHECK(p.item<double>() == .3);
  course(strength, 1, 4);
  CHECK(p.item<double>() == .3 + .04);
  CHECK(strength.p().is_same(p));
}

// Karras et al. 2020b, sec. 3, with doubles.
TEST_CASE("MovesAreThoseOfDoublesBitForBit") {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> sign(-10, 10);
  const auto moves = [&](AdaptiveStrength& strength) {
    random.seed(7);
    double p = 0, sum = 0;
    for (int64_t i = 0; i < 400; ++i) {
      const double signs = std::min(sign(random) + (i < 200 ? 8 : 2), 10);
      iterate(strength, i, sums(signs, kBatch));
      sum += signs;
      if ((i + 1) % kOptions.interval != 0) continue;
      const double r = sum / static_cast<double>(kOptions.interval * kBatch);
      const double step = static_cast<double>(kBatch * kOptions.interval) / 1000;
      p = std::clamp(p + (r > .6 ? step : r < .6 ? -step : 0), 0.0, 1.0);
      sum = 0;
      REQUIRE(p_of(strength) == p);
    }
  };
  AdaptiveStrength strength = started();
  moves(strength);
  const AssumeReadsWait reads_wait;
  AdaptiveStrength on_a_device = started();
  moves(on_a_device);
}

TEST_CASE("TheStateHasTheNamesAndTypesOfOldFiles") {
  const NamedTensors state = started().state();
  REQUIRE(state.size() == 2);
  CHECK(state[0].first == "p");
  CHECK(state[0].second.dim() == 0);
  CHECK(state[1].first == "signs");
  CHECK(state[1].second.sizes() == at::IntArrayRef({2}));
  for (const auto& [name, tensor] : state) CHECK(tensor.scalar_type() == at::kDouble);
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
    iterate(saved, i, sums(2, 10));
    iterate(restored, i, sums(2, 10));
    CHECK(p_of(restored) == p_of(saved));
  }
}
