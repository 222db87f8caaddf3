// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/forward_precision.h"
#include "gan/precision_options.h"
#include "train/gradient_guard.h"
#include "train/players.h"

namespace gantrain {

// How forward passes of a run on that device compute. Throws UserError(kUsage) naming what in
// precision.keep_float32 is no network and no block of these players.
ForwardPrecision forward_precision(const PrecisionOptions& options,
                                   at::Device device,
                                   const std::vector<PlayerState>& players);

// How gradients are guarded in such a run on that device: what scales losses, what happens where a
// gradient is not finite, what clips.
GuardSettings guard_settings(const PrecisionOptions& options,
                             const TrainOptions& train,
                             const OptimOptions& optim,
                             at::Device device);

// TensorFloat-32 on GPUs, for products and convolutions of float32.
void allow_tf32(bool allow);

// "bfloat16 by autocast", "float16 in blocks, loss scale dynamic from 65536": a line of the log; ""
// for float32.
std::string describe_precision(const PrecisionOptions& options, at::Device device);

}  // namespace gantrain
