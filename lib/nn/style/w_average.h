// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// The running average of w, which truncation pulls styles to (Karras et al. 2019, app. B). It moves
// once for each phase that maps latents, by the mean of w over the global batch.

// A micro-batch's share of that mean, [w_dim + 1]: the mean of w [N, w_dim], and 1. Without a
// graph.
at::Tensor sum_of_w(const at::Tensor& w);
// The mean over all micro-batches whose shares were added up, [w_dim].
at::Tensor mean_of_w(const at::Tensor& sum);
// average <- mean + beta (average - mean), in place.
void move_w_average_(at::Tensor average, const at::Tensor& mean, double beta);

}  // namespace gantrain
