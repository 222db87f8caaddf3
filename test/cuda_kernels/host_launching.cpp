// SPDX-License-Identifier: Apache-2.0
// What lib/ops/gpu/library.cpp is for a GPU: kernels run at once, on the host, in a loop.
#include "ops/gpu/table_cuda.h"

namespace gantrain {

cuda_kernels::Stream current_stream(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu(), "the host runs kernels on the host's tensors");
  return nullptr;
}

void check_launch() {}

}  // namespace gantrain
