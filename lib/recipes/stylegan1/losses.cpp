// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/losses.h"

#include "core/torch.h"
#include "ops/losses.h"

namespace gantrain::stylegan1 {

using at::Tensor;

DiscriminatorLoss d_loss(const Discriminate& D,
                         const Tensor& real,
                         const Tensor& fake,
                         const Tensor& t,
                         const PenaltyWeights& weights,
                         const LossOptions& o,
                         int64_t resolution) {
  // D averages the full picture's copies of each pixel, so the norm of the gradient by the full
  // picture is smaller by resolution / r.
  double scale = 1;
  if (o.penalty_size == PenaltySize::kFullres)
    scale = static_cast<double>(real.size(3)) / static_cast<double>(resolution);
  switch (o.kind) {
    case Loss::kLogistic:
    case Loss::kSaturating:
      return logistic_zero_centred_d(D, real, fake, {weights.r1, weights.r2, scale});
    case Loss::kWganGp:
      return wgan_gp_d(D, real, fake, t, {weights.gp, o.gp_target, o.drift, scale});
    case Loss::kHinge: {
      DiscriminatorLoss d;
      d.real_scores = D(real);
      d.fake_scores = D(fake);
      d.loss = hinge_d(d.real_scores, d.fake_scores);
      return d;
    }
  }
  throw std::logic_error("no such loss");
}

Tensor g_loss(const Tensor& fake_scores, const LossOptions& o) {
  switch (o.kind) {
    case Loss::kLogistic:
      return logistic_g(fake_scores);
    case Loss::kSaturating:
      return saturating_logistic_g(fake_scores);
    case Loss::kWganGp:
    case Loss::kHinge:
      return wasserstein_g(fake_scores);
  }
  throw std::logic_error("no such loss");
}

}  // namespace gantrain::stylegan1
