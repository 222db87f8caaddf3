// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "gan/generator.h"

namespace gantrain {

// Enlarges pictures [N, C, H, W] of an early stage to the generator's full size, each pixel to a
// square. Other pictures stay as they are.
at::Tensor full_size(const Generator& generator, const at::Tensor& pictures);

}  // namespace gantrain
