// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include "ops/draws/draws_gpu.h"
#include "ops/gpu/table_cuda.h"

namespace gantrain {

at::Tensor cuda_draw(const DrawNumbers& how) {
  const bool whole = how.distribution == Distribution::kBits;
  at::Tensor out = at::empty({how.samples.count, how.each},
                             how.key.options().dtype(whole ? at::kLong : at::kFloat));
  cuda_kernels::draw({.key = how.key.const_data_ptr<int64_t>(),
                      .phase = static_cast<uint64_t>(how.phase),
                      .purpose = how.purpose,
                      .first_sample = how.samples.first,
                      .sample_stride = how.samples.stride,
                      .samples = how.samples.count,
                      .each = how.each,
                      .kind = static_cast<cuda_kernels::Drawn>(how.distribution),
                      .out = out.mutable_data_ptr()},
                     current_stream(out));
  check_launch();
  return out;
}

}  // namespace gantrain
