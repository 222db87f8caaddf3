// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <optional>

namespace gantrain {

// Returns the first visible GPU, on a stream of which the calling thread computes from then on, or
// nothing, after saying why, where there is none or no CUDA library. All tests of the program begin
// with one of these calls, because the library must be loaded before LibTorch is called.
std::optional<c10::Device> gpu_or_skip();

// The same, but the CPU where the environment has GANTRAIN_TEST_DEVICE=cpu: to see on any machine
// that the comparisons themselves hold.
std::optional<c10::Device> device_or_skip();

}  // namespace gantrain
