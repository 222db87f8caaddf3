// SPDX-License-Identifier: Apache-2.0
#include "ops/upfirdn2d/upfirdn2d_cuda.h"

#include <ATen/ops/empty.h>

#include "ops/gpu/table_cuda.h"

namespace gantrain {

at::Tensor cuda_upfirdn2d(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how) {
  const UpFirDnCall call(x, f, how);
  cuda_kernels::upfirdn2d(call.arguments, current_stream(call.out));
  check_launch();
  return call.out;
}

}  // namespace gantrain
