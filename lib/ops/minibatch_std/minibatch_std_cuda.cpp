// SPDX-License-Identifier: Apache-2.0
#include "ops/minibatch_std/minibatch_std_cuda.h"

#include "ops/gpu/table_cuda.h"

namespace gantrain {

at::Tensor cuda_minibatch_std(const at::Tensor& x, int64_t g, int64_t channels, double eps) {
  return cuda_minibatch_std_gradient({}, x, g, channels, eps);
}

at::Tensor cuda_minibatch_std_gradient(
    const at::Tensor& dout, const at::Tensor& x, int64_t g, int64_t channels, double eps) {
  const MinibatchStdCall call(dout, x, {g, channels, eps});
  cuda_kernels::minibatch_std(call.arguments, current_stream(call.out));
  check_launch();
  return call.out;
}

}  // namespace gantrain
