// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include "core/device_number.h"
#include "train/options.h"

namespace gantrain {

// Returns the weight of the old average after a step of `batch` images: .5^(batch / half-life). The
// half-life is at most `rampup` times the images seen before the step (Karras et al. 2018a, 2020b).
double ema_beta(const EmaOptions& options, int64_t images_seen, int64_t batch);

// Updates the parameters of `average` in place: average <- average + (source - average) * weight.
// Buffers are copied. Both modules have the same names. `weight` is 1 - ema_beta().
void update_ema(torch::nn::Module& average,
                const torch::nn::Module& source,
                const DeviceNumber& weight);

}  // namespace gantrain
