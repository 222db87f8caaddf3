// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include "cuda/kernel_table.h"
#include "cuda/launching.h"
#include "cuda_kernels/draw.h"

namespace gantrain {

namespace {

cuda_kernels::Drawn kind_of(Distribution distribution) {
  switch (distribution) {
    case Distribution::kNormal:
      return cuda_kernels::Drawn::kNormal;
    case Distribution::kUniform:
      return cuda_kernels::Drawn::kUniform;
    case Distribution::kBits:
      break;
  }
  return cuda_kernels::Drawn::kBits;
}

}  // namespace

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
                      .kind = kind_of(how.distribution),
                      .out = out.mutable_data_ptr()},
                     current_stream(out));
  check_launch();
  return out;
}

}  // namespace gantrain
