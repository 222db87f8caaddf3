// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/pictures/dataset.h"

namespace gantrain {

// synth:shapes, pictures made on the fly: one of 10 shapes (disc, ring, square, triangle, star,
// cross, heart, crescent, hexagon, diamond; class = index mod 10) in one colour, striped, dotted or
// shaded, on a soft gradient. Picture i is the same scene at every resolution and in every run; in
// rectangles its shape lies anywhere along the longer side.
std::shared_ptr<const Dataset> make_shapes(const DataOptions& options);

}  // namespace gantrain
