// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "ops/losses.h"
#include "support/tensor_checks.h"

using namespace gantrain;

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
