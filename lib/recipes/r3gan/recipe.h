// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/device.h"
#include "gan/recipe.h"
#include "ops/losses.h"

namespace gantrain::r3gan {

// The losses of Huang et al. 2024, sec. 2: the relativistic pairing GAN (Jolicoeur-Martineau 2019)
// with both zero-centred gradient penalties. The i-th real picture is paired with the i-th
// generated one.
struct Pair {
  at::Tensor real, fake;  // [N, C, H, W]
};

// D as its two calls see it. Penalties are gradients by what these functions are given, so that an
// augmentation may be part of them.
struct PairedD {
  Discriminate real, fake;
};

// One number for each pair, [N], beside the mean loss; penalties are undefined where there are
// none.
struct DiscriminatorPairing {
  at::Tensor loss;
  at::Tensor real_scores, fake_scores;
  at::Tensor r1_penalty, r2_penalty;  // |grad D|^2 at the real picture, at the generated one
};
struct GeneratorPairing {
  at::Tensor loss;
  at::Tensor real_scores, fake_scores;
};

// E[softplus(D(G(z)) - D(x))], which is eq. 2 negated as D maximises it, and with a gamma the
// penalties of eq. 3. fake is given without a graph.
DiscriminatorPairing pairing_d(const PairedD& D, const Pair& pair, const DeviceNumber* gamma);

// R1 and R2 alone, gamma/2 E[|grad D|^2] at real and at generated pictures: eq. 3.
DiscriminatorPairing penalties_d(const PairedD& D, const Pair& pair, const DeviceNumber& gamma);

// E[softplus(D(x) - D(G(z)))]: G's side of eq. 2, without its saturation. The scores of real
// pictures are constants.
GeneratorPairing pairing_g(const PairedD& D, const Pair& pair);

// The row of R3GAN (Huang et al. 2024) for the table of recipes. An iteration has the phases D and
// G; where the penalties are lazy (r3gan.penalty_interval), Dreg between them.
RecipeRow row();

}  // namespace gantrain::r3gan
