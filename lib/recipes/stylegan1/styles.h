// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace gantrain::stylegan1 {

// Layers' latents ws are [N, layers, w_dim]; w is [N, w_dim].

// Layers with styles of a network up to `pixels`: 2 log2(pixels) - 2.
int64_t layers_at(int64_t pixels);

// The same w for all layers.
at::Tensor broadcast(const at::Tensor& w, int64_t layers);

// Karras et al. 2019, app. B: average + psi (w - average) in the first `cutoff` layers, in all of
// them without one. average [w_dim].
at::Tensor truncated(const at::Tensor& ws,
                     const at::Tensor& average,
                     double psi,
                     std::optional<int64_t> cutoff);

// Mixing regularisation (sec. 3.1): layers below `cutoff` from one, the others from the other.
at::Tensor mix_styles(const at::Tensor& ws, const at::Tensor& others, int64_t cutoff);

// Running average of w, in place: average <- mean + beta (average - mean).
void move_average_(at::Tensor average, const at::Tensor& mean_of_w, double beta = 0.995);

}  // namespace gantrain::stylegan1
