// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_kernels/planes_walk.h"

namespace gantrain::cuda_kernels {

// factor * the sums of parts[...] (of type Wide) over the parts: out [samples, channels] or, where
// over_samples, [channels], of type `type`.
struct PartsSum {
  Type type;
  Parts shape;
  bool over_samples;
  double factor;
  const void* parts;
  void* out;
};
void sum_parts(const PartsSum& how, Stream stream);

}  // namespace gantrain::cuda_kernels
