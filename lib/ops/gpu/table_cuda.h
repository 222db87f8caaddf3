// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/device_kernels.h"
#include "ops/gpu/launch.h"

// The glue between tensors and the kernels of the .cu files, a part of the CUDA library. That
// library is loaded before the trainer library, so that nothing here calls one of its functions;
// headers whose functions are inline may be used. Tests link the same files with functions of
// their own for library.cpp's, which run the kernels on the host's tensors.
namespace gantrain {

// Returns the stream that work on this tensor's device is given to now.
cuda_kernels::Stream current_stream(const at::Tensor& tensor);

// Throws c10::Error if the last launch failed.
void check_launch();

inline cuda_kernels::Type kernel_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return cuda_kernels::Type::kFloat64;
    case at::kHalf:
      return cuda_kernels::Type::kFloat16;
    case at::kBFloat16:
      return cuda_kernels::Type::kBFloat16;
    default:
      TORCH_CHECK(tensor.scalar_type() == at::kFloat, "no kernel for ", tensor.scalar_type());
      return cuda_kernels::Type::kFloat32;
  }
}

// Where a tensor's numbers lie; null where it is undefined.
inline const void* data(const at::Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }
inline void* mutable_data(const at::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr() : nullptr;
}

}  // namespace gantrain

// What the library exports, for begin_on_gpu() (device_kernels.h).
extern "C" const gantrain::DeviceKernels* gantrain_cuda_kernels();
