// SPDX-License-Identifier: Apache-2.0
#include "metrics/inception_score.h"

#include <vector>

#include "core/torch.h"

namespace gantrain {

InceptionScore inception_score(const at::Tensor& probabilities, int64_t splits) {
  const int64_t count = probabilities.size(0);
  TORCH_CHECK(count >= splits, "inception_score: ", count, " pictures for ", splits, " splits");
  const at::Tensor all = probabilities.to(at::kCPU, at::kDouble);
  std::vector<double> scores;
  for (int64_t split = 0; split < splits; ++split) {
    const at::Tensor p = all.slice(0, split * count / splits, (split + 1) * count / splits);
    const at::Tensor divergence = (at::xlogy(p, p) - at::xlogy(p, p.mean(0, true))).sum(1);
    scores.push_back(divergence.mean().exp().item<double>());
  }
  const at::Tensor values = at::tensor(scores, at::kDouble);
  return {.mean = values.mean().item<double>(),
          .deviation = values.std(/*unbiased=*/false).item<double>()};
}

}  // namespace gantrain
