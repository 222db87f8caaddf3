// SPDX-License-Identifier: Apache-2.0
#include "nn/style/w_average.h"

#include "core/torch.h"

namespace gantrain {

at::Tensor sum_of_w(const at::Tensor& w) {
  const at::Tensor values = w.detach();
  return at::cat({values.mean(0), at::ones({1}, values.options())});
}

at::Tensor mean_of_w(const at::Tensor& sum) {
  const int64_t w_dim = sum.size(0) - 1;
  return sum.narrow(0, 0, w_dim) / sum.narrow(0, w_dim, 1);
}

void move_w_average_(at::Tensor average, const at::Tensor& mean, double beta) {
  const torch::NoGradGuard no_grad;
  average.lerp_(mean.detach().to(average.options()), 1 - beta);
}

}  // namespace gantrain
