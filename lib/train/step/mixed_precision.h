// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/forward_precision.h"
#include "gan/options.h"
#include "train/step/gradient_guard.h"
#include "train/step/players.h"

namespace gantrain {

// Returns how the forward passes of a run compute on that device. Throws UserError(kUsage) that
// names an entry of precision.keep_float32 that is neither a network nor a block of these players.
ForwardPrecision forward_precision(const PrecisionOptions& options,
                                   at::Device device,
                                   const std::vector<PlayerState>& players);

// Returns how gradients are guarded in such a run: how losses are scaled, what happens where a
// gradient is not finite, and how gradients are clipped.
GuardSettings guard_settings(const PrecisionOptions& options,
                             const TrainOptions& train,
                             const OptimOptions& optim,
                             at::Device device);

// Allows or forbids TensorFloat-32 on GPUs, for float32 products and convolutions.
void allow_tf32(bool allow);

// Returns a line for the log, as "bfloat16 by autocast" or "float16 in blocks, loss scale dynamic
// from 65536"; "" for float32.
std::string describe_precision(const PrecisionOptions& options, at::Device device);

// Says which algorithms LibTorch takes from now on, in the whole process. If deterministic, only
// those that give the same bits at every call; an operator that has none throws. Otherwise, on a
// GPU, the convolution that was the fastest for a shape when that shape first came. A rank calls
// this before its first computation on a GPU: cuBLAS takes its workspace, on which the bits depend,
// from the environment, which this sets unless the user has.
void choose_algorithms(bool deterministic);

}  // namespace gantrain
