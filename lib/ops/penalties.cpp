// SPDX-License-Identifier: Apache-2.0
#include "ops/penalties.h"

#include <cmath>

#include "core/forward_precision.h"
#include "core/torch.h"
#include "ops/losses.h"

namespace gantrain {

using at::Tensor;

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
