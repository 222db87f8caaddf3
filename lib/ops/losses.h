// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "core/device.h"

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

// A discriminator as a function: x [N, C, H, W] -> scores [N].
using Discriminate = std::function<at::Tensor(const at::Tensor&)>;

// The scores of one call of D and the norms of their gradients by the pictures, each [N].
struct InputGradients {
  at::Tensor scores;
  at::Tensor squared_norms;  // |grad_x D(x)|^2 of each sample, differentiable again
};
InputGradients input_gradients(const Discriminate& D, const at::Tensor& x);

// The gradient penalty of Gulrajani et al. 2017, eq. 3, without its factor lambda: E[(|grad D(x~)|
// - 1)^2] at x~ = real + t (fake - real). t is [N, 1, 1, 1] in [0, 1). It is twice differentiable
// and calls D once.
at::Tensor gradient_penalty(const Discriminate& D,
                            const at::Tensor& real,
                            const at::Tensor& fake,
                            const at::Tensor& t);

// A discriminator's loss and its parts. The parts have one number for each sample, [N], and are
// undefined where the loss has no such part.
struct DiscriminatorLoss {
  at::Tensor loss;  // mean over the batch
  at::Tensor real_scores, fake_scores, interpolated_scores;
  at::Tensor interpolated_norms;      // |grad D| at the interpolated pictures
  at::Tensor r1_penalty, r2_penalty;  // |grad D|^2 at real pictures, at generated ones
};

struct WganGp {
  DeviceNumber weight = 10;   // lambda of Gulrajani et al. 2017, eq. 3
  double target = 1;          // gamma of Karras et al. 2018a, app. A.1
  double drift = 0.001;       // epsilon_drift, ibid.; it keeps scores of real pictures near 0
  double gradient_scale = 1;  // the gradient's norm is multiplied by it
};

// The discriminator's WGAN-GP loss with drift (Karras et al. 2018a, app. A.1): E[D(fake)] -
// E[D(real)] + weight E[(|grad D(interpolated)| / target - 1)^2] + drift E[D(real)^2] with
// interpolated = real + (fake - real) t. t is [N, 1, 1, 1] in [0, 1).
DiscriminatorLoss wgan_gp_d(const Discriminate& D,
                            const at::Tensor& real,
                            const at::Tensor& fake,
                            const at::Tensor& t,
                            const WganGp& how);

struct ZeroCentred {
  DeviceNumber r1_gamma = 10, r2_gamma = 0;
  double gradient_scale = 1;
};

// The logistic loss of D (logistic_d) plus gamma/2 E[|grad D|^2] at real pictures (R1) and at
// generated ones (R2): Mescheder et al. 2018, eq. 9 and 10. Where a gamma is the constant 0, its
// gradient is not computed.
DiscriminatorLoss logistic_zero_centred_d(const Discriminate& D,
                                          const at::Tensor& real,
                                          const at::Tensor& fake,
                                          const ZeroCentred& how);

// Returns the path lengths |J_w^T y|, [N], of Karras et al. 2020a, sec. 3.2. The pictures [N, C, H,
// W] were computed from the layers' styles ws [N, layers, w_dim]; y [N, C, H, W] ~ N(0, 1) is
// divided by sqrt(H W). The squared norm is the sum over w_dim and the mean over layers. The result
// can be differentiated again.
at::Tensor path_lengths(const at::Tensor& pictures, const at::Tensor& ws, const at::Tensor& y);

}  // namespace gantrain
