// SPDX-License-Identifier: Apache-2.0
#include "ops/pixel_norm.h"

#include <torch/torch.h>

#include "ops/precision.h"

namespace gantrain {

at::Tensor pixel_norm(const at::Tensor& x, double eps, int64_t dim) {
  const WithoutAutocast exact;
  const at::Tensor wide = x.to(statistics_type(x.scalar_type()));
  const at::Tensor square = wide.square().mean(dim, /*keepdim=*/true);
  return (wide * (square + eps).rsqrt()).to(x.scalar_type());
}

}  // namespace gantrain
