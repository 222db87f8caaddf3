// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/device_number.h"

namespace gantrain {

struct AdamSettings {
  double lr, beta1, beta2, eps;
  at::Tensor lr_on_device = {};  // float32 [], used instead of lr where it is defined
};

// Makes one step of Adam (Kingma & Ba 2015, alg. 1) on all parameters in place, in one pass over
// their memory. `steps` holds one float32 scalar tensor for each parameter, which counts its steps;
// the call first raises each by one. `found` is undefined, or one float32 number on the device: 1
// where a gradient is not finite, else 0. Where it is 1, parameters, moments and counts stay as
// they are, and the program does not wait for a device to read it. On a CPU no bit depends on the
// number of threads.
void adam_step_(std::vector<at::Tensor>& parameters,
                const std::vector<at::Tensor>& gradients,
                std::vector<at::Tensor>& first_moments,
                std::vector<at::Tensor>& second_moments,
                std::vector<at::Tensor>& steps,
                const AdamSettings& settings,
                const at::Tensor& found = {});

// Moves every tensor of `averages` in place towards the one at the same index of `values`: average
// <- average + (value - average) * weight. Both lists have the same length and shapes. It computes
// the running average of weights (EMA), on a CPU in one pass over their memory.
void lerp_(std::vector<at::Tensor>& averages,
           const std::vector<at::Tensor>& values,
           const DeviceNumber& weight);

}  // namespace gantrain
