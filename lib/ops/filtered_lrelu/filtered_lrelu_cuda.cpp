// SPDX-License-Identifier: Apache-2.0
#include "ops/filtered_lrelu/filtered_lrelu_cuda.h"

#include "ops/gpu/table_cuda.h"

namespace gantrain {

std::tuple<at::Tensor, at::Tensor> cuda_filtered_lrelu(const at::Tensor& x,
                                                       const at::Tensor& b,
                                                       const FilteredLreluStep& step,
                                                       bool with_slopes) {
  FilteredLreluCall call(x, b, step);
  if (with_slopes) call.write_slopes();
  cuda_kernels::filtered_lrelu(call.arguments, current_stream(call.out));
  check_launch();
  return {call.out, call.slopes};
}

at::Tensor cuda_filtered_slopes(const at::Tensor& x,
                                const at::Tensor& slopes,
                                const FilteredLreluStep& step) {
  FilteredLreluCall call(x, {}, step);
  call.read_slopes(slopes, step);
  cuda_kernels::filtered_lrelu(call.arguments, current_stream(call.out));
  check_launch();
  return call.out;
}

}  // namespace gantrain
