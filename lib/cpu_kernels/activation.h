// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

enum class Activation { kLinear, kRelu, kLrelu, kTanh, kSigmoid, kElu, kSelu, kSoftplus, kSwish };

// softplus is log(1 + e^u). Above this threshold it is u, which is the same in float64 too.
constexpr double kSoftplusThreshold = 40;
// Klambauer et al. 2017, sec. 2.
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;

}  // namespace gantrain
