// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

enum class Activation { kLinear, kRelu, kLrelu, kTanh, kSigmoid, kElu, kSelu, kSoftplus, kSwish };

// Activations of two straight lines, which have kernels. Networks use no others here; those are
// composed.
constexpr bool is_two_lines(Activation act) {
  return act == Activation::kLinear || act == Activation::kRelu || act == Activation::kLrelu;
}

}  // namespace gantrain
