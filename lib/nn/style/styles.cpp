// SPDX-License-Identifier: Apache-2.0
#include "nn/style/styles.h"

#include <algorithm>

#include "core/device.h"
#include "core/torch.h"
#include "nn/progressive.h"

namespace gantrain {

using at::Tensor;

int64_t layers_at(int64_t pixels) { return 2 * doublings(pixels) + 2; }

Tensor for_all_layers(const Tensor& w, int64_t layers) {
  return w.unsqueeze(1).expand({w.size(0), layers, w.size(1)});
}

Tensor truncated(const Tensor& ws,
                 const Tensor& w_average,
                 double psi,
                 std::optional<int64_t> cutoff) {
  if (psi == 1) return ws;
  const int64_t layers = ws.size(1);
  const int64_t first = std::clamp<int64_t>(cutoff.value_or(layers), 0, layers);
  const Tensor moved = w_average + (ws.narrow(1, 0, first) - w_average) * psi;
  return at::cat({moved, ws.narrow(1, first, layers - first)}, 1);
}

namespace {

// The cut among `layers` layers, on the host.
int64_t read_cutoff(const Tensor& cutoff, int64_t layers) {
  return std::clamp<int64_t>(static_cast<int64_t>(read_free(cutoff)), 0, layers);
}

Tensor mix_on_device(const Tensor& ws, const Tensor& others, const Tensor& cutoff) {
  const Tensor layer = at::arange(ws.size(1), cutoff.options()).unsqueeze(1);  // [layers, 1]
  return at::where(layer < cutoff, ws, others);
}

}  // namespace

Tensor mix_styles(const Tensor& ws, const Tensor& others, const Tensor& cutoff) {
  if (!reads_are_free(cutoff.device())) return mix_on_device(ws, others, cutoff);
  const int64_t layers = ws.size(1), first = read_cutoff(cutoff, layers);
  return at::cat({ws.narrow(1, 0, first), others.narrow(1, first, layers - first)}, 1);
}

Tensor mix_styles(const Tensor& w, const Tensor& other, const Tensor& cutoff, int64_t layers) {
  if (!reads_are_free(cutoff.device()))
    return mix_on_device(for_all_layers(w, layers), for_all_layers(other, layers), cutoff);
  const int64_t first = read_cutoff(cutoff, layers);
  return at::cat({for_all_layers(w, first), for_all_layers(other, layers - first)}, 1);
}

bool known_not_to_mix(const Tensor& cutoff, int64_t layers) {
  return reads_are_free(cutoff.device()) && read_cutoff(cutoff, layers) == layers;
}

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
