// SPDX-License-Identifier: Apache-2.0
#include "augment/sample_matrix.h"

#include "core/torch.h"

namespace gantrain {

at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b, int64_t n) {
  const at::Tensor left = a.view({-1, n, n}), right = b.view({-1, n, n});
  // The library's product could round to 11 bits, where TF32 is allowed.
  at::Tensor sum = left.narrow(2, 0, 1) * right.narrow(1, 0, 1);
  for (int64_t k = 1; k < n; ++k) sum = sum + left.narrow(2, k, 1) * right.narrow(1, k, 1);
  return sum.view({-1, n * n});
}

}  // namespace gantrain
