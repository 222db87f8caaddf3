// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace gantrain {

// Losses of a discriminator and a generator, computed from scores of any shape. Each returns the
// mean over the scores.

// The logistic loss. D minimises -E[log s(D(x))] - E[log(1 - s(D(G(z))))] (Goodfellow et al. 2014,
// eq. 1), and G minimises the non-saturating -E[log s(D(G(z)))] (sec. 3). Scores are logits; s is
// the sigmoid.
at::Tensor logistic_d(const at::Tensor& real_scores, const at::Tensor& fake_scores);
at::Tensor logistic_g(const at::Tensor& fake_scores);
// G's loss as eq. 1 has it: E[log(1 - s(D(G(z))))]. Its gradient vanishes where D is sure that a
// picture is generated.
at::Tensor saturating_logistic_g(const at::Tensor& fake_scores);

// The hinge loss of D (Lim & Ye 2017): E[max(0, 1 - D(x))] + E[max(0, 1 + D(G(z)))]. G's loss is
// wasserstein_g.
at::Tensor hinge_d(const at::Tensor& real_scores, const at::Tensor& fake_scores);

// The least-squares loss (Mao et al. 2017, eq. 9 with a = 0, b = c = 1). D minimises 1/2 E[(D(x) -
// 1)^2] + 1/2 E[D(G(z))^2], and G minimises 1/2 E[(D(G(z)) - 1)^2].
at::Tensor least_squares_d(const at::Tensor& real_scores, const at::Tensor& fake_scores);
at::Tensor least_squares_g(const at::Tensor& fake_scores);

// The Wasserstein loss (Arjovsky et al. 2017). D minimises E[D(G(z))] - E[D(x)], and G minimises
// -E[D(G(z))].
at::Tensor wasserstein_d(const at::Tensor& real_scores, const at::Tensor& fake_scores);
at::Tensor wasserstein_g(const at::Tensor& fake_scores);

// The gradient penalty of Gulrajani et al. 2017, eq. 3, without its factor lambda: E[(|grad D(x~)|
// - 1)^2] at x~ = real + t (fake - real). t is [N, 1, 1, 1] in [0, 1). It is twice differentiable
// and calls D once.
at::Tensor gradient_penalty(const std::function<at::Tensor(const at::Tensor&)>& D,
                            const at::Tensor& real,
                            const at::Tensor& fake,
                            const at::Tensor& t);

}  // namespace gantrain
