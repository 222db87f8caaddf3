// SPDX-License-Identifier: Apache-2.0
#include "cuda/launching.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

namespace gantrain {

cuda_kernels::Stream current_stream(const at::Tensor& tensor) {
  return c10::cuda::getCurrentCUDAStream(tensor.get_device()).stream();
}

void check_launch() { C10_CUDA_KERNEL_LAUNCH_CHECK(); }

}  // namespace gantrain
