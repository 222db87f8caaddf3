// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "metrics/pictures.h"
#include "metrics/shared_work.h"

namespace gantrain {

// Returns the mean Euclidean distance between two of the first `count` pictures (at most 2048
// count, in all pairs), each reduced by averaging to at most 32 pixels on its shorter side. Values
// 0..255, so that two pictures of opposite colour differ by 255 a value: divided by the root of the
// number of values. Collective. Needs two pictures.
double mean_distance(Pictures& pictures, int64_t count, const SharedWork& work);

// Which of the ten classes of synth:shapes a set of pictures shows.
struct Modes {
  int64_t shown = 0;      // classes that at least a hundredth of the pictures belong to, and one
  double recognised = 0;  // share of the pictures that look like a shape at all
};

// Sorts the first `count` fakes into the classes of synth:shapes, by the nearest outline among a
// thousand reals: a picture's outline is where it is darker or more colourful than the pale ground,
// moved to the middle and scaled. Fakes whose outline is further from every real one than reals'
// outlines are from each other belong to no class. `reals` are synth:shapes of the fakes' size.
// Collective. Sorts at least 95 % of real shapes of 16 pixels or more rightly.
Modes count_modes(Pictures& reals, Pictures& fakes, int64_t count, const SharedWork& work);

// Returns the class of each of the first `count` fakes, -1 for none, int64 [count]. Collective.
at::Tensor classify_shapes(Pictures& reals, Pictures& fakes, int64_t count, const SharedWork& work);

}  // namespace gantrain
