// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "recipes/stylegan2/augment_draws.h"
#include "recipes/stylegan2/augment_options.h"

namespace gantrain::stylegan2 {

// Applies each transform to each sample of `images` [N, C, H, W], float32 or float64, about [-1,
// 1], with probability multiplier * p (Karras et al. 2020b, sec. 2 and app. B): pixel blits and
// general geometric transforms in one resampling, colour, image filter, noise, cutout. p = 0
// returns `images` itself; above 1 is as 1. Any number of derivatives with respect to the images.
// Autocast changes no type. Random numbers, matrices and with them the mirrored margins are made on
// the host, so that nothing waits for a GPU. Colour acts on the first three channels, or on the
// first where there are one or two (no hue, no saturation); alpha, the channel after them, takes
// part in all but colour. Throws UserError(kUsage) as check_augment does.
at::Tensor augment(const at::Tensor& images, double p, const AugmentOptions& options, Draws& draws);

// The stages of augment() in their order; p > 0. A stage whose transforms are all off returns its
// input.
at::Tensor augment_geometry(const at::Tensor& images,
                            double p,
                            const AugmentOptions& options,
                            Draws& draws);
at::Tensor augment_color(const at::Tensor& images,
                         double p,
                         const AugmentOptions& options,
                         Draws& draws);
at::Tensor augment_filter(const at::Tensor& images,
                          double p,
                          const AugmentOptions& options,
                          Draws& draws);
at::Tensor augment_noise(const at::Tensor& images,
                         double p,
                         const AugmentOptions& options,
                         Draws& draws);
at::Tensor augment_cutout(const at::Tensor& images,
                          double p,
                          const AugmentOptions& options,
                          Draws& draws);

}  // namespace gantrain::stylegan2
