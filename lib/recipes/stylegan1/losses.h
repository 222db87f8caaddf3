// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/progressive_discriminator.h"
#include "ops/penalties.h"
#include "recipes/stylegan1/options.h"

namespace gantrain::stylegan1 {

// Present values of the options r1_gamma, r2_gamma and gp_weight.
struct PenaltyWeights {
  DeviceNumber r1, r2, gp;
};

// Returns D's loss with its penalties at the level of r pixels of a network of `resolution`. real
// and fake are [N, C, r, r], fake detached. Only wgan-gp needs t, [N, 1, 1, 1] in [0, 1).
DiscriminatorLoss d_loss(const Discriminate& D,
                         const at::Tensor& real,
                         const at::Tensor& fake,
                         const at::Tensor& t,
                         const PenaltyWeights& weights,
                         const LossOptions& options,
                         int64_t resolution);

// Returns G's loss, which options.kind names.
at::Tensor g_loss(const at::Tensor& fake_scores, const LossOptions& options);

}  // namespace gantrain::stylegan1
