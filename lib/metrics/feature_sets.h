// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// What a detector sees in two sets of pictures: [N, F] each, one row a picture, any floating type.
struct FeatureSets {
  at::Tensor reals;
  at::Tensor fakes;
};

}  // namespace gantrain
