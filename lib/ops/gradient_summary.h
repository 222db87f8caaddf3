// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace gantrain {

// What one reading of all gradients tells.
struct GradientSummary {
  bool finite;                 // all of them are
  std::optional<double> norm;  // Euclidean, of all together; none where it was not asked for
};

// Reads float32 tensors on the CPU once and changes nothing. The norm is added up in float64, and
// none of its bits depends on the number of threads. Returns nothing for other tensors.
std::optional<GradientSummary> summarise(const std::vector<at::Tensor>& gradients, bool with_norm);

}  // namespace gantrain
