// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace gantrain {

// Losses of a discriminator and a generator on scores of any shape; each is the mean over the
// scores.

// Goodfellow et al. 2014, eq. 1, on logits: -E[log s(D(x))] - E[log(1 - s(D(G(z))))], and the
// non-saturating generator's loss of sec. 3: -E[log s(D(G(z)))].
at::Tensor logistic_d(const at::Tensor& real_scores, const at::Tensor& fake_scores);
at::Tensor logistic_g(const at::Tensor& fake_scores);
// Eq. 1 as it stands: E[log(1 - s(D(G(z))))], whose gradient fades where D is sure.
at::Tensor saturating_logistic_g(const at::Tensor& fake_scores);

// Lim & Ye 2017: E[max(0, 1 - D(x))] + E[max(0, 1 + D(G(z)))]; the generator's is wasserstein_g.
at::Tensor hinge_d(const at::Tensor& real_scores, const at::Tensor& fake_scores);

// Mao et al. 2017, eq. 9 with a = 0, b = c = 1: 1/2 E[(D(x) - 1)^2] + 1/2 E[D(G(z))^2], and
// 1/2 E[(D(G(z)) - 1)^2].
at::Tensor least_squares_d(const at::Tensor& real_scores, const at::Tensor& fake_scores);
at::Tensor least_squares_g(const at::Tensor& fake_scores);

// Arjovsky et al. 2017: E[D(G(z))] - E[D(x)], and -E[D(G(z))].
at::Tensor wasserstein_d(const at::Tensor& real_scores, const at::Tensor& fake_scores);
at::Tensor wasserstein_g(const at::Tensor& fake_scores);

// Gulrajani et al. 2017, eq. 3 without lambda: E[(|grad D(x~)| - 1)^2] at x~ = real + t (fake -
// real). t: [N, 1, 1, 1] in [0, 1). Twice differentiable; D is called once.
at::Tensor gradient_penalty(const std::function<at::Tensor(const at::Tensor&)>& D,
                            const at::Tensor& real,
                            const at::Tensor& fake,
                            const at::Tensor& t);

}  // namespace gantrain
