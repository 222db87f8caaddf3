// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/device_number.h"

namespace gantrain {

struct AdamSettings {
  double lr, beta1, beta2, eps;
  at::Tensor lr_on_device = {};  // float32 [], used instead of lr where it is defined (CUDA)
};

// One step of Adam (Kingma & Ba 2015, alg. 1) on all parameters in one fused kernel, in place.
// steps: one float32 scalar tensor for each parameter, counts of steps taken; raised by one first.
// found: float32 [1], or undefined; above 0 it leaves everything as it is, without being read by
// the host.
void adam_step_(std::vector<at::Tensor>& parameters,
                std::vector<at::Tensor>& gradients,
                std::vector<at::Tensor>& first_moments,
                std::vector<at::Tensor>& second_moments,
                std::vector<at::Tensor>& steps,
                const AdamSettings& settings,
                const at::Tensor& found = {});

// average <- average + (value - average) * weight, for all at once: the average of weights (EMA).
// Lists of equal length and shapes.
void lerp_(std::vector<at::Tensor>& averages,
           const std::vector<at::Tensor>& values,
           const DeviceNumber& weight);

}  // namespace gantrain
