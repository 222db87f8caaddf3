// SPDX-License-Identifier: Apache-2.0
#include "ops/losses.h"

#include "core/forward_precision.h"
#include "core/torch.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;
using torch::softplus;

// -log s(x) = softplus(-x) and -log(1 - s(x)) = softplus(x), without overflow. Above its threshold
// of 20 torch's softplus is the identity, which would cut the gradient's last digits in float64, so
// the threshold is raised.
namespace {
// In half precision a mean over scores loses most of its digits.
Tensor wide(const Tensor& scores) { return scores.to(statistics_type(scores.scalar_type())); }

Tensor smooth_plus(const Tensor& x) { return softplus(wide(x), /*beta=*/1, /*threshold=*/40); }
}  // namespace

Tensor logistic_d(const Tensor& real_scores, const Tensor& fake_scores) {
  return smooth_plus(-real_scores).mean() + smooth_plus(fake_scores).mean();
}

Tensor logistic_g(const Tensor& fake_scores) { return smooth_plus(-fake_scores).mean(); }

Tensor saturating_logistic_g(const Tensor& fake_scores) { return -smooth_plus(fake_scores).mean(); }

Tensor hinge_d(const Tensor& real_scores, const Tensor& fake_scores) {
  return (1 - wide(real_scores)).relu().mean() + (1 + wide(fake_scores)).relu().mean();
}

Tensor least_squares_d(const Tensor& real_scores, const Tensor& fake_scores) {
  return 0.5 * (wide(real_scores) - 1).square().mean() + 0.5 * wide(fake_scores).square().mean();
}

Tensor least_squares_g(const Tensor& fake_scores) {
  return 0.5 * (wide(fake_scores) - 1).square().mean();
}

Tensor wasserstein_d(const Tensor& real_scores, const Tensor& fake_scores) {
  return wide(fake_scores).mean() - wide(real_scores).mean();
}

Tensor wasserstein_g(const Tensor& fake_scores) { return -wide(fake_scores).mean(); }

Tensor gradient_penalty(const std::function<Tensor(const Tensor&)>& D,
                        const Tensor& real,
                        const Tensor& fake,
                        const Tensor& t) {
  // The gradient is differentiated again; autocast would lose digits of the first gradient.
  const AutocastDisabled exact("a penalty", autocast_is_on());
  const Tensor interpolated = (real + (fake - real) * t).detach().requires_grad_(true);
  const Tensor scores = D(interpolated);
  const Tensor gradient = torch::autograd::grad({scores.sum()},
                                                {interpolated},
                                                {},
                                                /*retain_graph=*/true,
                                                /*create_graph=*/true)[0];
  const Tensor norm = gradient.square().sum({1, 2, 3}).sqrt();
  return (norm - 1).square().mean();
}

}  // namespace gantrain
