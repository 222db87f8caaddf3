// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/progressive_discriminator.h"
#include "ops/penalties.h"
#include "recipes/pggan/options.h"

namespace gantrain::pggan {

// Returns D's loss, WGAN-GP with drift (Karras et al. 2018a, app. A.1), at the level of r pixels of
// a network of `resolution`. real and fake are [N, C, r, r], fake detached. t [N, 1, 1, 1] in [0,
// 1) says where between real and fake the gradient is taken. gp_weight is the present value of
// options.gp_weight.
DiscriminatorLoss d_loss(const Discriminate& D,
                         const at::Tensor& real,
                         const at::Tensor& fake,
                         const at::Tensor& t,
                         const DeviceNumber& gp_weight,
                         const LossOptions& options,
                         int64_t resolution);

// Returns G's loss -E[D(G(z))].
at::Tensor g_loss(const at::Tensor& fake_scores);

}  // namespace gantrain::pggan
