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

// The CUDA library's implementations of DeviceKernels and FusedKernels.
KernelLike<decltype(DeviceKernels::draw)> cuda_draw;
KernelLike<decltype(DeviceKernels::upfirdn2d)> cuda_upfirdn2d;
KernelLike<decltype(DeviceKernels::bias_act)> cuda_bias_act;
KernelLike<decltype(DeviceKernels::bias_act_gradient)> cuda_bias_act_gradient;
KernelLike<decltype(FusedKernels::act)> cuda_act;
KernelLike<decltype(FusedKernels::act_gradient)> cuda_act_gradient;
KernelLike<decltype(FusedKernels::act_second)> cuda_act_second;
KernelLike<decltype(FusedKernels::plane_products)> cuda_plane_products;
KernelLike<decltype(FusedKernels::scaled_planes)> cuda_scaled_planes;
KernelLike<decltype(FusedKernels::minibatch_std)> cuda_minibatch_std;
KernelLike<decltype(FusedKernels::minibatch_std_gradient)> cuda_minibatch_std_gradient;
KernelLike<decltype(FusedKernels::pixel_norm)> cuda_pixel_norm;
KernelLike<decltype(FusedKernels::pixel_norm_gradient)> cuda_pixel_norm_gradient;
KernelLike<decltype(FusedKernels::adain)> cuda_adain;
KernelLike<decltype(FusedKernels::adain_gradient)> cuda_adain_gradient;
KernelLike<decltype(FusedKernels::filtered_lrelu)> cuda_filtered_lrelu;
KernelLike<decltype(FusedKernels::filtered_slopes)> cuda_filtered_slopes;

}  // namespace gantrain

// What the library exports (ops/cuda_library.h).
extern "C" const gantrain::DeviceKernels* gantrain_cuda_kernels();
