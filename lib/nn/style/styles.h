// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace gantrain {

// Styles of a synthesis network: w is [N, w_dim], the layers' styles ws are [N, layers, w_dim].

// Layers with styles of a network with two layers for each resolution from 4 up to `pixels` (Karras
// et al. 2019 and 2020a): 2 log2(pixels) - 2.
int64_t layers_at(int64_t pixels);

// The same w for each of `layers` layers.
at::Tensor for_all_layers(const at::Tensor& w, int64_t layers);

// The truncation trick (Karras et al. 2019, app. B): w_average + psi (w - w_average) in the first
// `cutoff` layers, in all of them without one. w_average [w_dim].
at::Tensor truncated(const at::Tensor& ws,
                     const at::Tensor& w_average,
                     double psi,
                     std::optional<int64_t> cutoff);

// Style mixing (Karras et al. 2019, sec. 3.1): layers below `cutoff` take their styles from `ws`,
// the layers from `cutoff` on from `others`. cutoff is an int64 [] on any device. Where reading it
// costs nothing (on a CPU), it is read, and styles that are not used are not computed. Elsewhere
// both are computed, and nothing is waited for.
at::Tensor mix_styles(const at::Tensor& ws, const at::Tensor& others, const at::Tensor& cutoff);
// The same for two w [N, w_dim], each of which is used for all of `layers` layers. Returns [N,
// layers, w_dim].
at::Tensor mix_styles(const at::Tensor& w,
                      const at::Tensor& other,
                      const at::Tensor& cutoff,
                      int64_t layers);
// Whether mixing is known, without waiting, to take nothing from the second style: `cutoff` is at
// least `layers`. A recipe then need not compute the second style.
bool known_not_to_mix(const at::Tensor& cutoff, int64_t layers);

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
