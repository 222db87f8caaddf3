// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace gantrain {

// A picture of a data set, as it is or left and right exchanged.
struct WantedPicture {
  int64_t index = 0;
  bool flipped = false;
};

// Loads pictures, at least one, on several threads: uint8 [N, C, H, W] on the CPU, in the order
// asked for. Throws what Dataset::view() throws.
at::Tensor load_planes(const Dataset& dataset, const std::vector<WantedPicture>& wanted);

}  // namespace gantrain
