// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Turns pictures into uint8 on the CPU, of the same shape. Floating-point values in [-1, 1] become
// floor(x * 127.5 + 128), clamped to 0..255, and NaN becomes black; uint8 stays as it is. The input
// may lie on any device.
at::Tensor to_bytes(const at::Tensor& images);

}  // namespace gantrain
