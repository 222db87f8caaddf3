// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace gantrain {

struct AdamSettings {
  double lr, beta1, beta2, eps;
};

// One step of Adam (Kingma & Ba 2015, alg. 1) on all parameters in one fused kernel, in place.
// steps: one float32 scalar tensor for each parameter, counts of steps taken; raised by one first.
void adam_step_(std::vector<at::Tensor>& parameters,
                std::vector<at::Tensor>& gradients,
                std::vector<at::Tensor>& first_moments,
                std::vector<at::Tensor>& second_moments,
                std::vector<at::Tensor>& steps,
                const AdamSettings& settings);

// average <- average + (value - average) * weight, for all at once. Averages of gradients, of
// weights (EMA). Lists of equal length and shapes.
void lerp_(std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values, double weight);

}  // namespace gantrain
