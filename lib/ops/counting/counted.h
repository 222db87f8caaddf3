// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "ops/counting/gpu_count.h"
#include "ops/device_kernels.h"

// What the sources of the count share.
namespace gantrain {

using IValues = std::vector<c10::IValue>;

// A key between autograd and the kernels that nothing else in this process uses.
inline constexpr c10::DispatchKey kCountKey = c10::DispatchKey::Fake;

// Bytes of a tensor's distinct numbers; 0 for one that is undefined. Axes of stride 0 repeat.
double bytes_of(const at::Tensor& tensor);

// Counts a call of that many kernels, which read and write these tensors.
void count_call(const std::string& name,
                int64_t kernels,
                const std::vector<at::Tensor>& read,
                const std::vector<at::Tensor>& written,
                double floor = 0);

// Counts an operator that LibTorch's meta device does not know, or that is more than one kernel,
// and puts its results on the stack, as LibTorch would. Returns false for any other operator.
bool count_by_rule(const c10::OperatorHandle& op, torch::jit::Stack& stack);

// The CUDA library's table with kernels that count their launches and return tensors without
// numbers.
extern const DeviceKernels kCountedKernels;

}  // namespace gantrain
