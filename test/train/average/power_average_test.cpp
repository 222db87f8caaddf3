// SPDX-License-Identifier: Apache-2.0
#include "train/average/power_average.h"

#include <cmath>
#include <numeric>

#include "core/device.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

// The weights of a made training: noise that is forgotten about a slow way.
struct MadeTraining {
  static constexpr int64_t kIterations = 4096, kBatch = 8, kSize = 50;
  Tensor weight = torch::zeros({kSize}, at::kDouble);
  Tensor noise = torch::zeros({kSize}, at::kDouble);
  Tensor way, draws;

  MadeTraining() {
    torch::manual_seed(3);
    way = torch::randn({kSize}, at::kDouble) * 50;
    draws = torch::randn({kIterations, kSize}, at::kDouble);
  }
  void iterate(int64_t i) {
    noise = noise * .995 + draws[i];
    weight.copy_(noise + way * std::sqrt(static_cast<double>(i + 1) / kIterations));
  }
};

struct KeptAverages {
  std::vector<PowerProfile> profiles;
  std::vector<Tensor> averages;
};

Tensor combined(const KeptAverages& kept, const std::vector<double>& factors) {
  Tensor sum = torch::zeros_like(kept.averages.front());
  for (size_t i = 0; i < factors.size(); ++i) sum += kept.averages[i] * factors[i];
  return sum;
}

}  // namespace

TEST_CASE("GammaHasTheLengthThatItWasAskedFor") {
  for (const double length : {.01, .05, .1, .2, kLongestAverage}) {
    const double g = gamma_of_length(length);
    CHECK(std::sqrt(g + 1) / ((g + 2) * std::sqrt(g + 3)) == Approx(length).epsilon(1e-10));
  }
  CHECK(gamma_of_length(.05) == Approx(16.97).margin(.005));  // the paper's
  CHECK(gamma_of_length(.10) == Approx(6.94).margin(.005));
  CHECK(gamma_of_length(kLongestAverage) == Approx(0).margin(1e-9));
}

TEST_CASE("AnImageCountsByAPowerOfItsTimeWhateverTheBatches") {
  // Iterations of 10, 30 and 60 images: their shares are those of the integral of (g + 1) u^g.
  const double gamma = 2;
  double first = power_weight(gamma, 0, 10);
  CHECK(first == 1);  // what was there before training has no part
  const double second = power_weight(gamma, 10, 30), third = power_weight(gamma, 40, 60);
  first *= (1 - second) * (1 - third);
  CHECK(first == Approx(std::pow(.1, 3)).epsilon(1e-12));
  CHECK(second * (1 - third) == Approx(std::pow(.4, 3) - std::pow(.1, 3)).epsilon(1e-12));
  CHECK(third == Approx(1 - std::pow(.4, 3)).epsilon(1e-12));
}

TEST_CASE("RunningAveragesAreTheirClosedForm") {
  MadeTraining training;
  PowerAverages averages({{"weight", training.weight}}, {.05, .2});
  std::vector<Tensor> history;
  constexpr int64_t kSome = 300;
  for (int64_t i = 0; i < kSome; ++i) {
    training.iterate(i);
    history.push_back(training.weight.clone());
    averages.update(i * 8, 8);
  }
  for (size_t a = 0; a < 2; ++a) {
    const double power = gamma_of_length(averages.lengths()[a]) + 1;
    Tensor sum = torch::zeros_like(training.weight);
    for (int64_t i = 0; i < kSome; ++i) {
      const double until = std::pow(static_cast<double>(i + 1) / kSome, power);
      const double before = std::pow(static_cast<double>(i) / kSome, power);
      sum += history[static_cast<size_t>(i)] * (until - before);
    }
    CHECK(scaled_error(averages.of(a).front().second, sum) < 1e-12);
  }
}

TEST_CASE("AnyLengthIsMadeOfTwoToAThousandthOfTheDistanceMoved") {
  const std::vector<double> others = {.015, .02, .03, .07, .15, .2};
  MadeTraining training;
  PowerAverages kept_averages({{"weight", training.weight}}, kKeptLengths);
  PowerAverages truth({{"weight", training.weight}}, others);
  KeptAverages kept;
  for (int64_t i = 0; i < MadeTraining::kIterations; ++i) {
    training.iterate(i);
    kept_averages.update(i * 8, 8);
    truth.update(i * 8, 8);
    if ((i + 1) % (MadeTraining::kIterations / 64) != 0) continue;
    for (size_t a = 0; a < kKeptLengths.size(); ++a) {
      kept.profiles.push_back({static_cast<double>((i + 1) * 8), gamma_of_length(kKeptLengths[a])});
      kept.averages.push_back(kept_averages.of(a).front().second.clone());
    }
  }
  const double images = kept.profiles.back().images;
  for (size_t a = 0; a < others.size(); ++a) {
    CAPTURE(others[a]);
    const Combination found = combine_profiles(kept.profiles, {images, gamma_of_length(others[a])});
    CHECK(std::accumulate(found.factors.begin(), found.factors.end(), 0.) == Approx(1));
    CHECK(found.misfit < .025);
    const Tensor wanted = truth.of(a).front().second;
    const double error = (combined(kept, found.factors) - wanted).norm().item<double>();
    CHECK(error < 1e-3 * wanted.norm().item<double>());  // it began at 0
    // The newest average alone is no such model.
    CHECK((kept.averages.back() - wanted).norm().item<double>() > 10 * error);
  }
}

TEST_CASE("AKeptLengthIsItself") {
  std::vector<PowerProfile> profiles;
  for (const double images : {100., 200., 300.}) {
    for (const double length : kKeptLengths) profiles.push_back({images, gamma_of_length(length)});
  }
  const Combination found = combine_profiles(profiles, profiles.back());
  CHECK(found.misfit < 1e-6);
  for (size_t i = 0; i < profiles.size(); ++i)
    CHECK(found.factors[i] == Approx(i + 1 == profiles.size() ? 1 : 0).margin(1e-9));
  // Two snapshots at the same time, as after a resume, are no obstacle.
  profiles.push_back(profiles.back());
  CHECK(combine_profiles(profiles, profiles.back()).misfit < 1e-6);
  // One time alone cannot tell what a shorter average looks back on.
  CHECK(combine_profiles({profiles[4], profiles[5]}, {300, gamma_of_length(.01)}).misfit > .3);
}

TEST_CASE("NothingWaitsForTheDeviceInAPowerAverage") {
  Tensor weight = torch::randn({20});
  PowerAverages plain({{"weight", weight}}, kKeptLengths);
  const AssumeReadsWait reads_wait;
  PowerAverages device({{"weight", weight}}, kKeptLengths);
  for (int64_t i = 0; i < 5; ++i) {
    weight.add_(torch::randn({20}));
    device.update(i * 8, 8);
  }
  CHECK(device.of(0).front().second.isfinite().all().item<bool>());
  CHECK_FALSE(at::equal(device.of(0).front().second, plain.of(0).front().second));
}
