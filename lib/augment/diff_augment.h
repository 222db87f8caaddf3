// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "augment/augment_options.h"
#include "ops/draws/draws.h"
#include "util/size.h"

namespace gantrain {

// What DiffAugment draws for each picture, [N] each. Parts whose numbers are undefined are left
// out. Lengths are whole pixels; rows count from the top, columns from the left.
struct DiffAugmentDraws {
  at::Tensor brightness, saturation, contrast;       // uniform in [0, 1)
  at::Tensor translation_rows, translation_columns;  // where the picture's first pixel is taken
  at::Tensor cutout_row, cutout_column;              // centre of the square that is cut out
};

// Draws the numbers for pictures of that size: "diffaugment/color", "diffaugment/translation" and
// "diffaugment/cutout" of the key, by global sample, so that they depend neither on the rank count
// nor on which parts are on. Translations reach an eighth of the picture's height and width; the
// cutout's centre lies anywhere. Nothing waits for the device.
DiffAugmentDraws diff_augment_draws(const DiffPolicy& policy,
                                    const DrawKey& key,
                                    const Samples& samples,
                                    const Size& size);

// DiffAugment (Zhao et al. 2020, arXiv:2006.10738, sec. 3.2) of `images` [N, C, H, W], float32 or
// float64, about [-1, 1], always and to every picture: brightness, saturation and contrast;
// translation, with zeros outside; cutout of a fifth of height and width, filled with zeros. Any
// number of derivatives with respect to the images, computed without sums in any order that a GPU
// chooses. Autocast changes no type, and nothing waits for the device. Colour acts on the first
// three channels, or on the first where there are one or two, and on none of more than 4. Throws
// UserError(kUsage) for more than 16 channels.
at::Tensor diff_augment(const at::Tensor& images, const DiffAugmentDraws& draws);

// The kinds of pictures that a phase shows to D; each has draws of its own.
enum class Shown { kFake, kReal, kBetween };

// The augmentation of recipes that know no adaptive one: what D sees of the pictures x, of that
// kind, in the phase that `key` is of. With DiffAugmentMode::kOff it is x itself.
at::Tensor seen_by_D(const AugmentChoice<DiffAugmentMode>& choice,
                     const at::Tensor& x,
                     Shown kind,
                     const DrawKey& key,
                     const Samples& samples);

}  // namespace gantrain
