// SPDX-License-Identifier: Apache-2.0
#include "ops/losses.h"

#include "support/catch.h"
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

namespace {

struct Linear {
  at::Tensor w = torch::tensor({3.0, 4.0}, at::kDouble).reshape({2, 1, 1}).requires_grad_(true);
  at::Tensor operator()(const at::Tensor& x) const { return (x * w).sum({1, 2, 3}); }
};

at::Tensor pictures() { return torch::randn({6, 2, 1, 1}, at::kDouble); }

}  // namespace

TEST_CASE("SlopesOfALinearDAreItsWeights") {
  const Linear D;
  const at::Tensor x = pictures();
  const InputGradients s = input_gradients(D, x);
  CHECK(torch::allclose(s.scores, D(x)));
  CHECK(torch::allclose(s.squared_norms, torch::full({6}, 25., at::kDouble)));
  s.squared_norms.mean().backward();
  CHECK(torch::allclose(D.w.grad(), 2 * D.w));
}

TEST_CASE("R1IsZeroForAConstantD") {
  const auto D = [](const at::Tensor& x) { return (x * 0).sum({1, 2, 3}) + 3; };
  const DiscriminatorLoss d = logistic_zero_centred_d(D, pictures(), pictures(), {10, 10, 1});
  CHECK(d.r1_penalty.abs().max().item<double>() == 0);
  CHECK(d.loss.item<double>() == Approx(logistic_d(d.real_scores, d.fake_scores).item<double>()));
}

TEST_CASE("TheLossesAreTheSumsOfTheirParts") {
  const Linear D;
  const at::Tensor real = pictures(), fake = pictures();
  const DiscriminatorLoss wgan =
      wgan_gp_d(D, real, fake, torch::rand({6, 1, 1, 1}, at::kDouble), {10, 2, 0.5, 0.25});
  const double norm = 5 * 0.25;
  CHECK(torch::allclose(wgan.interpolated_norms, torch::full({6}, norm, at::kDouble)));
  CHECK(wgan.loss.item<double>() ==
        Approx((D(fake).mean() - D(real).mean() + 0.5 * D(real).square().mean()).item<double>() +
               10 * (norm / 2 - 1) * (norm / 2 - 1)));
  const DiscriminatorLoss r12 = logistic_zero_centred_d(D, real, fake, {4, 2, 0.5});
  CHECK(torch::allclose(r12.r2_penalty, torch::full({6}, 25 / 4., at::kDouble)));
  CHECK(r12.loss.item<double>() ==
        Approx(logistic_d(D(real), D(fake)).item<double>() + (2 + 1) * 25 / 4.));
}

TEST_CASE("APenaltyOfWeightZeroIsNotTaken") {
  const Linear D;
  const DiscriminatorLoss d = logistic_zero_centred_d(D, pictures(), pictures(), {0, 0, 1});
  CHECK_FALSE(d.r1_penalty.defined());
  CHECK_FALSE(d.r2_penalty.defined());
}

TEST_CASE("NoGradientReachesWhatMadeThePictures") {
  const Linear D;
  const at::Tensor real = pictures(), fake = pictures().requires_grad_(true);
  const at::Tensor t = torch::rand({6, 1, 1, 1}, at::kDouble);
  wgan_gp_d(D, real, fake.detach(), t, {}).loss.backward();
  CHECK_FALSE(fake.grad().defined());
  CHECK(D.w.grad().defined());
}

// Pictures A w per layer: J_w^T y is A^T y, whatever w is.
TEST_CASE("PathLengthsOfALinearGeneratorAreThoseOfItsMatrix") {
  const at::Tensor A = torch::randn({3 * 4, 5}, at::kDouble).requires_grad_(true);
  const at::Tensor ws = torch::randn({2, 2, 5}, at::kDouble).requires_grad_(true);
  const at::Tensor y = torch::randn({2, 3, 2, 2}, at::kDouble);
  const at::Tensor pictures = at::matmul(ws.sum(1), A.t()).reshape({2, 3, 2, 2});
  const at::Tensor lengths = path_lengths(pictures, ws, y);
  const at::Tensor expected = (at::matmul(y.reshape({2, 12}), A) / 2).norm(2, {1});
  CHECK(torch::allclose(lengths, expected));
  lengths.sum().backward();
  CHECK(A.grad().defined());
}
