// SPDX-License-Identifier: Apache-2.0
#include "ops/losses.h"

#include <catch2/catch.hpp>

#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("TheLogisticLossIsBinaryCrossEntropy") {
  const at::Tensor real = torch::randn({16}, at::kDouble) * 3,
                   fake = torch::randn({16}, at::kDouble) * 3;
  const at::Tensor bce = -(real.sigmoid().log().mean() + (1 - fake.sigmoid()).log().mean());
  CHECK(logistic_d(real, fake).item<double>() == Approx(bce.item<double>()).epsilon(1e-12));
  CHECK(logistic_g(fake).item<double>() ==
        Approx(-fake.sigmoid().log().mean().item<double>()).epsilon(1e-12));
}

TEST_CASE("TheLogisticLossStaysFiniteForLargeScores") {
  const at::Tensor big = torch::tensor({1e4f, -1e4f});
  CHECK(std::isfinite(logistic_d(big, big).item<float>()));
  CHECK(logistic_g(torch::tensor({-1e4f})).item<float>() == 1e4f);
}

TEST_CASE("LeastSquaresVanishAtTheirTargets") {
  CHECK(least_squares_d(torch::ones({4}), torch::zeros({4})).item<float>() == 0);
  CHECK(least_squares_g(torch::ones({4})).item<float>() == 0);
  CHECK(least_squares_d(torch::zeros({4}), torch::full({4}, 2.0)).item<float>() == 2.5f);
}

TEST_CASE("TheWassersteinLossesAreOppositeInTheFakes") {
  const at::Tensor real = torch::randn({8}), fake = torch::randn({8});
  CHECK((wasserstein_d(real, fake) + wasserstein_g(fake)).item<float>() ==
        Approx(-real.mean().item<float>()));
}

TEST_CASE("TheGradientPenaltyOfALinearCriticIsItsNormsDistanceFromOne") {
  const at::Tensor w =
      torch::tensor({3.0, 4.0}, at::kDouble).reshape({2, 1, 1}).requires_grad_(true);
  const auto D = [&](const at::Tensor& x) { return (x * w).sum({1, 2, 3}); };
  const at::Tensor real = torch::randn({5, 2, 1, 1}, at::kDouble),
                   fake = torch::randn({5, 2, 1, 1}, at::kDouble);
  const at::Tensor penalty =
      gradient_penalty(D, real, fake, torch::rand({5, 1, 1, 1}, at::kDouble));
  CHECK(penalty.item<double>() == Approx(16));  // (5 - 1)^2
  penalty.backward();                           // d/dw (|w| - 1)^2 = 2 (|w| - 1) w / |w|
  CHECK(w.grad()[0].item<double>() == Approx(2 * 4 * 3 / 5.0));
  CHECK(w.grad()[1].item<double>() == Approx(2 * 4 * 4 / 5.0));
}

TEST_CASE("TheGradientPenaltysGradientMatchesFiniteDifferences") {
  at::Tensor w = torch::randn({2, 3}, at::kDouble).requires_grad_(true);
  const at::Tensor real = torch::randn({4, 3, 1, 1}, at::kDouble),
                   fake = torch::randn({4, 3, 1, 1}, at::kDouble);
  const at::Tensor t = torch::rand({4, 1, 1, 1}, at::kDouble);
  const auto penalty = [&](const at::Tensor& weight) {
    return gradient_penalty(
        [&](const at::Tensor& x) { return torch::matmul(x.flatten(1), weight.t()).tanh().sum(1); },
        real,
        fake,
        t);
  };
  penalty(w).backward();
  const at::Tensor direction = torch::randn_like(w);
  const double h = 1e-6;
  const double difference =
      ((penalty(w.detach() + h * direction) - penalty(w.detach() - h * direction)) / (2 * h))
          .item<double>();
  CHECK((w.grad() * direction).sum().item<double>() == Approx(difference).epsilon(1e-6));
}

TEST_CASE("TheSaturatingLossIsTheDiscriminatorsNegated") {
  const at::Tensor fake = torch::randn({16}, at::kDouble) * 3;
  CHECK(saturating_logistic_g(fake).item<double>() ==
        Approx((1 - fake.sigmoid()).log().mean().item<double>()).epsilon(1e-12));
}

TEST_CASE("TheHingeLossEndsAtItsMargins") {
  CHECK(hinge_d(torch::full({4}, 1.5), torch::full({4}, -1.0)).item<float>() == 0);
  CHECK(hinge_d(torch::zeros({4}), torch::full({4}, 2.0)).item<float>() == 4);
}
