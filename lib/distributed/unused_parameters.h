// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/safetensors.h"

namespace gantrain {

// The trainable ones among `parameters` that the graph of `loss` does not reach. The host walks the
// graph; nothing is asked of the device.
NamedTensors unused_parameters(const at::Tensor& loss, const NamedTensors& parameters);

// Returns the loss, whose backward pass also gives zeros to those parameters: so every parameter
// takes part, and gradients are the same to the bit.
at::Tensor with_zero_gradients(const at::Tensor& loss, const NamedTensors& parameters);

}  // namespace gantrain
