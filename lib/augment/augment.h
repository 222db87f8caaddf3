// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "augment/augment_options.h"
#include "augment/sample_values.h"

namespace gantrain {

// Applies each transform to each sample of `images` [N, C, H, W], float32 or float64, about [-1,
// 1], with probability multiplier * p (Karras et al. 2020b, sec. 2 and app. B): pixel blits and
// general geometric transforms in one resampling, colour, image filter, noise, cutout. p, []
// float64 on the images' device, is not negative; above 1 is as 1; at 0 the result equals `images`.
// Any number of derivatives with respect to the images. Autocast changes no type. Colour acts on
// the first three channels, or on the first where there are one or two (no hue, no saturation);
// alpha, the channel after them, takes part in all but colour. Throws UserError(kUsage) as
// check_augment does.
//
// Nothing waits for the device. On a CPU the host computes matrices and strengths and mirrors the
// pictures only as far as they are seen; p = 0 draws nothing and returns `images` themselves. On
// other devices everything is computed there, p = 0 or not, and the pictures are mirrored as far as
// can be: a float32 picture of 256 x 256 RGB needs 28 MB while it is resampled. The numbers are the
// same up to rounding.
at::Tensor augment(const at::Tensor& images,
                   const at::Tensor& p,
                   const AugmentOptions& options,
                   AugmentDraws& draws);

// The stages of augment() in their order; p > 0. A stage whose multipliers are all 0 returns its
// input.
at::Tensor augment_geometry(const at::Tensor& images,
                            const at::Tensor& p,
                            const AugmentOptions& options,
                            AugmentDraws& draws);
at::Tensor augment_color(const at::Tensor& images,
                         const at::Tensor& p,
                         const AugmentOptions& options,
                         AugmentDraws& draws);
at::Tensor augment_filter(const at::Tensor& images,
                          const at::Tensor& p,
                          const AugmentOptions& options,
                          AugmentDraws& draws);
at::Tensor augment_noise(const at::Tensor& images,
                         const at::Tensor& p,
                         const AugmentOptions& options,
                         AugmentDraws& draws);
at::Tensor augment_cutout(const at::Tensor& images,
                          const at::Tensor& p,
                          const AugmentOptions& options,
                          AugmentDraws& draws);

}  // namespace gantrain
