// SPDX-License-Identifier: Apache-2.0
#include "ops/losses.h"

#include <cmath>

#include "core/forward_precision.h"
#include "core/torch.h"
#include "ops/autocast.h"

namespace gantrain {

using torch::softplus;

// -log s(x) = softplus(-x) and -log(1 - s(x)) = softplus(x), without overflow. Above its threshold
// of 20 torch's softplus is the identity, which would cut the gradient's last digits in float64, so
// the threshold is raised.
namespace {
Tensor smooth_plus(const Tensor& x) {
  return softplus(in_statistics_type(x), /*beta=*/1, /*threshold=*/40);
}
}  // namespace

Tensor logistic_d(const Tensor& real_scores, const Tensor& fake_scores) {
  return smooth_plus(-real_scores).mean() + smooth_plus(fake_scores).mean();
}

Tensor logistic_g(const Tensor& fake_scores) { return smooth_plus(-fake_scores).mean(); }

Tensor saturating_logistic_g(const Tensor& fake_scores) { return -smooth_plus(fake_scores).mean(); }

Tensor hinge_d(const Tensor& real_scores, const Tensor& fake_scores) {
  return (1 - in_statistics_type(real_scores)).relu().mean() +
         (1 + in_statistics_type(fake_scores)).relu().mean();
}

Tensor least_squares_d(const Tensor& real_scores, const Tensor& fake_scores) {
  return 0.5 * (in_statistics_type(real_scores) - 1).square().mean() +
         0.5 * in_statistics_type(fake_scores).square().mean();
}

Tensor least_squares_g(const Tensor& fake_scores) {
  return 0.5 * (in_statistics_type(fake_scores) - 1).square().mean();
}

Tensor wasserstein_d(const Tensor& real_scores, const Tensor& fake_scores) {
  return in_statistics_type(fake_scores).mean() - in_statistics_type(real_scores).mean();
}

Tensor wasserstein_g(const Tensor& fake_scores) { return -in_statistics_type(fake_scores).mean(); }

InputGradients input_gradients(const Discriminate& D, const Tensor& pictures) {
  // Autocast would lose digits in both derivatives. Blocks that choose their own types (StyleGAN2)
  // compute as in the reference.
  const AutocastDisabled exact("a penalty", autocast_is_on());
  const Tensor x = pictures.detach().requires_grad_(true);
  InputGradients all;
  all.scores = D(x);
  const Tensor gradient = torch::autograd::grad({all.scores.sum()},
                                                {x},
                                                {},
                                                /*retain_graph=*/true,
                                                /*create_graph=*/true)[0];
  all.squared_norms = gradient.square().sum({1, 2, 3});
  return all;
}

Tensor gradient_penalty(const Discriminate& D,
                        const Tensor& real,
                        const Tensor& fake,
                        const Tensor& t) {
  const InputGradients between = input_gradients(D, real + (fake - real) * t);
  return (between.squared_norms.sqrt() - 1).square().mean();
}

DiscriminatorLoss wgan_gp_d(const Discriminate& D,
                            const Tensor& real,
                            const Tensor& fake,
                            const Tensor& t,
                            const WganGp& how) {
  DiscriminatorLoss d;
  d.real_scores = D(real);
  d.fake_scores = D(fake);
  const InputGradients interpolated = input_gradients(D, real + (fake - real) * t);
  d.interpolated_scores = interpolated.scores;
  d.interpolated_norms = interpolated.squared_norms.sqrt() * how.gradient_scale;
  const Tensor penalty = (d.interpolated_norms / how.target - 1).square().mean();
  d.loss = wasserstein_d(d.real_scores, d.fake_scores) + how.weight.times(penalty) +
           how.drift * d.real_scores.square().mean();
  return d;
}

DiscriminatorLoss logistic_zero_centred_d(const Discriminate& D,
                                          const Tensor& real,
                                          const Tensor& fake,
                                          const ZeroCentred& how) {
  const double square = how.gradient_scale * how.gradient_scale;
  DiscriminatorLoss d;
  const auto score = [&](const Tensor& x, const DeviceNumber& gamma, Tensor& penalty) {
    if (!gamma.is_used()) return D(x);
    const InputGradients s = input_gradients(D, x);
    penalty = s.squared_norms * square;
    return s.scores;
  };
  d.real_scores = score(real, how.r1_gamma, d.r1_penalty);
  d.fake_scores = score(fake, how.r2_gamma, d.r2_penalty);
  d.loss = logistic_d(d.real_scores, d.fake_scores);
  if (d.r1_penalty.defined()) d.loss = d.loss + how.r1_gamma.times(d.r1_penalty.mean(), 0.5);
  if (d.r2_penalty.defined()) d.loss = d.loss + how.r2_gamma.times(d.r2_penalty.mean(), 0.5);
  return d;
}

Tensor path_lengths(const Tensor& pictures, const Tensor& ws, const Tensor& y) {
  const double pixels = static_cast<double>(pictures.size(2) * pictures.size(3));
  const Tensor sum = (pictures * (y / std::sqrt(pixels))).sum();
  const Tensor g =
      torch::autograd::grad({sum}, {ws}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  return g.square().sum(2).mean(1).sqrt();
}

}  // namespace gantrain
