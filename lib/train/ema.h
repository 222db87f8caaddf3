// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include "core/device_number.h"
#include "train/options.h"

namespace gantrain {

// Weight of the old average after a step of `batch` images: .5^(batch / half-life), the half-life
// at most `rampup` times the images seen before the step (Karras et al. 2018, 2020b).
double ema_beta(const EmaOptions& options, int64_t images_seen, int64_t batch);

// average <- average + (source - average) * weight for parameters; buffers are copied. Both modules
// have the same names. weight: 1 - ema_beta().
void update_ema(torch::nn::Module& average,
                const torch::nn::Module& source,
                const DeviceNumber& weight);

}  // namespace gantrain
