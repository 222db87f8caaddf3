// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace gantrain {

// Whether no number is infinite or NaN. Reads float32 tensors on the CPU once, without a copy;
// returns nothing for other tensors.
std::optional<bool> all_finite(const std::vector<at::Tensor>& tensors);

}  // namespace gantrain
