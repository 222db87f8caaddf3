// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "core/device_number.h"

namespace gantrain {

// x [N, C, H, W] -> scores [N].
using Discriminate = std::function<at::Tensor(const at::Tensor&)>;

// What one call of D tells, each [N].
struct InputGradients {
  at::Tensor scores;
  at::Tensor squared_norms;  // |grad_x D(x)|^2 of each sample, differentiable again
};
InputGradients input_gradients(const Discriminate& D, const at::Tensor& x);

// A discriminator's loss and what it is made of; the parts are per sample, [N], undefined where the
// loss has no such part.
struct DiscriminatorLoss {
  at::Tensor loss;  // mean over the batch
  at::Tensor real_scores, fake_scores, interpolated_scores;
  at::Tensor interpolated_norms;      // |grad D| at interpolated pictures
  at::Tensor r1_penalty, r2_penalty;  // |grad D|^2 at real and at generated pictures
};

struct WganGp {
  DeviceNumber weight = 10;   // lambda of Gulrajani et al. 2017, eq. 3
  double target = 1;          // gamma of Karras et al. 2018a, app. A.1
  double drift = 0.001;       // epsilon_drift, ibid.: keeps scores of real pictures near 0
  double gradient_scale = 1;  // factor of the gradient's norm
};

// E[D(fake)] - E[D(real)] + weight E[(|grad D(interpolated)| / target - 1)^2] + drift E[D(real)^2]
// with interpolated = real + (fake - real) t, t [N, 1, 1, 1] in [0, 1) (Karras et al. 2018a, app.
// A.1).
DiscriminatorLoss wgan_gp_d(const Discriminate& D,
                            const at::Tensor& real,
                            const at::Tensor& fake,
                            const at::Tensor& t,
                            const WganGp& how);

struct ZeroCentred {
  DeviceNumber r1_gamma = 10, r2_gamma = 0;
  double gradient_scale = 1;
};

// logistic_d with gamma/2 E[|grad D|^2] at real pictures (R1) and at generated ones (R2): Mescheder
// et al. 2018, eq. 9 and 10. A gamma of 0 leaves its gradient out.
DiscriminatorLoss logistic_zero_centred_d(const Discriminate& D,
                                          const at::Tensor& real,
                                          const at::Tensor& fake,
                                          const ZeroCentred& how);

// Karras et al. 2020a, sec. 3.2: |J_w^T y| for pictures [N, C, H, W] made of the layers' styles ws
// [N, layers, w_dim] and y [N, C, H, W] ~ N(0, 1), divided by sqrt(H W): the root of the mean over
// layers, [N], differentiable again.
at::Tensor path_lengths(const at::Tensor& pictures, const at::Tensor& ws, const at::Tensor& y);

}  // namespace gantrain
