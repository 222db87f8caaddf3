// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/losses.h"

#include "core/torch.h"
#include "ops/losses.h"

namespace gantrain::pggan {

using at::Tensor;

DiscriminatorLoss d_loss(const Discriminate& D,
                         const Tensor& real,
                         const Tensor& fake,
                         const Tensor& t,
                         const DeviceNumber& gp_weight,
                         const LossOptions& options,
                         int64_t resolution) {
  WganGp how{gp_weight, options.gp_target, options.drift, 1};
  // The full picture holds each pixel (resolution / r)^2 times, and D takes the mean of these
  // copies. So the gradient by each copy is smaller by that square, and the norm over all copies is
  // smaller by resolution / r.
  if (options.gp_size == PenaltySize::kFullres)
    how.gradient_scale = static_cast<double>(real.size(3)) / static_cast<double>(resolution);
  return wgan_gp_d(D, real, fake, t, how);
}

Tensor g_loss(const Tensor& fake_scores) { return wasserstein_g(fake_scores); }

}  // namespace gantrain::pggan
