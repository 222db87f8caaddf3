// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string_view>

#include "ops/bias_act/activation.h"

namespace gantrain {

constexpr std::array<std::string_view, 9> names(Activation) {
  return {"linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish"};
}

struct BiasAct {
  Activation act = Activation::kLinear;
  int64_t dim = 1;              // the axis that the bias belongs to
  std::optional<double> alpha;  // negative slope of lrelu; none: .2
  std::optional<double> gain;   // none: sqrt 2 for relu, lrelu and swish, else 1
  std::optional<double> clamp;  // to [-clamp, clamp], after the gain
};

double default_gain(Activation act);

// Returns clamp(gain * act(x + b)) for x of any shape; b is [x.size(how.dim)] or undefined (no
// bias). Twice differentiable.
at::Tensor bias_act(const at::Tensor& x, const at::Tensor& b, const BiasAct& how);

}  // namespace gantrain
