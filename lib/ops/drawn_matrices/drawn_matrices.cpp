// SPDX-License-Identifier: Apache-2.0
#include "ops/drawn_matrices/drawn_matrices.h"

#include "core/torch.h"
#include "ops/device_kernels.h"

namespace gantrain {

bool has_drawn_matrices(const Tensor& p) {
  return has_fused_kernel(&FusedKernels::drawn_matrices, p, at::kFloat);
}

Matrices drawn_matrices(const Tensor& p, const DrawnMatrices& how) {
  TORCH_CHECK(p.dim() == 0 && p.scalar_type() == at::kDouble, "drawn_matrices: p ", p.toString());
  TORCH_CHECK(how.steps.size() <= DrawnMatrices::kMost, how.steps.size(), " steps");
  const at::NoGradGuard no_grad;
  const auto [each, margins] = fused_kernels_of(p).drawn_matrices(p, how);
  return {each, margins};
}

}  // namespace gantrain
