// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/styles.h"

#include <torch/torch.h>

#include "nn/progressive.h"

namespace gantrain::stylegan1 {

using at::Tensor;

int64_t layers_at(int64_t pixels) { return 2 * doublings(pixels) + 2; }

Tensor broadcast(const Tensor& w, int64_t layers) {
  return w.unsqueeze(1).expand({w.size(0), layers, w.size(1)});
}

Tensor truncated(const Tensor& ws,
                 const Tensor& average,
                 double psi,
                 std::optional<int64_t> cutoff) {
  if (psi == 1) return ws;
  const int64_t layers = ws.size(1);
  const int64_t first = std::clamp<int64_t>(cutoff.value_or(layers), 0, layers);
  return at::cat({at::lerp(average.expand_as(ws.narrow(1, 0, first)), ws.narrow(1, 0, first), psi),
                  ws.narrow(1, first, layers - first)},
                 1);
}

Tensor mix_styles(const Tensor& ws, const Tensor& others, int64_t cutoff) {
  const int64_t layers = ws.size(1);
  const int64_t first = std::clamp<int64_t>(cutoff, 0, layers);
  return at::cat({ws.narrow(1, 0, first), others.narrow(1, first, layers - first)}, 1);
}

void move_average_(Tensor average, const Tensor& mean_of_w, double beta) {
  const torch::NoGradGuard no_grad;
  average.lerp_(mean_of_w.detach().to(average.options()), 1 - beta);
}

}  // namespace gantrain::stylegan1
