// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device_graphs.h"
#include "core/device_waits.h"
#include "ops/device_kernels.h"

namespace gantrain {

// What the CUDA library (lib/cuda) exports for the operators and the training step, by name.
//
// The table of kernels. Members that are null have no kernel: those operators are composed.
using CudaKernels = const DeviceKernels* (*)();
inline constexpr const char* kCudaKernels = "gantrain_cuda_kernels";
// A MakeGraphPool for GPUs. Work is recorded from the calling thread's current stream, which must
// not be the default stream.
inline constexpr const char* kCudaGraphPool = "gantrain_cuda_graph_pool";
// Why the visible GPU of an index cannot run the kernels, or "".
using CudaObjection = const char* (*)(int index);
inline constexpr const char* kCudaObjection = "gantrain_cuda_objection";
// A SetWaitErrors for GPUs.
inline constexpr const char* kCudaSyncDebug = "gantrain_cuda_sync_debug";

// Takes kernels, graphs and the errors of waits from the CUDA library, which must have been loaded,
// for tensors on GPUs. Call it once, before anything is computed. Throws UserError(kEnvironment) if
// the library lacks one of them.
void use_cuda_library();

// Makes the visible GPU of that index LibTorch's current device and calls use_cuda_library(). From
// now on the calling thread gives its work to a stream of its own, because work on the default
// stream cannot be recorded as a graph. Throws UserError(kEnvironment) if the kernels are not made
// for that GPU.
at::Device begin_on_gpu(int64_t index);

// Returns `some` with the composed kernels in the place of those that are null.
DeviceKernels completed(const DeviceKernels& some);

}  // namespace gantrain
