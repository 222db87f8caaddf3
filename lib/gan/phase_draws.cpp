// SPDX-License-Identifier: Apache-2.0
#include "gan/phase_draws.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

namespace gantrain {

using at::Tensor;

PhaseDraws::PhaseDraws(uint64_t seed, int64_t z_dim, const std::vector<int64_t>& class_counts)
    : seed_(seed), z_dim_(z_dim), first_above_(class_counts.size()) {
  std::partial_sum(class_counts.begin(), class_counts.end(), first_above_.begin());
}

Stream PhaseDraws::stream(const char* purpose, int64_t iteration, int64_t phase) const {
  return Stream(seed_, purpose, static_cast<uint64_t>(iteration), static_cast<uint64_t>(phase));
}

Tensor PhaseDraws::z(const Batch& b, int64_t phase, int64_t which) const {
  return normal(stream(which == 0 ? "z" : "z/mixed", b.iteration, phase), b.samples, {z_dim_});
}

Tensor PhaseDraws::labels(const Batch& b, int64_t phase, at::Device device) const {
  if (first_above_.empty()) return {};
  const Stream draws = stream("labels", b.iteration, phase);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < b.samples.count; ++i) {
    const auto sample = static_cast<uint64_t>(b.samples.first + i * b.samples.stride);
    const auto picture =
        static_cast<int64_t>(draws.below(static_cast<uint64_t>(first_above_.back()), sample));
    const auto at = std::upper_bound(first_above_.begin(), first_above_.end(), picture);
    labels.push_back(at - first_above_.begin());
  }
  return torch::tensor(labels, at::kLong).to(device);
}

int64_t PhaseDraws::mixing_cutoff(int64_t iteration,
                                  int64_t phase,
                                  double probability,
                                  int64_t layers) const {
  const Stream draws = stream("mixing", iteration, phase);
  if (layers < 2 || draws.uniform(0, 0) >= probability) return layers;
  return 1 + static_cast<int64_t>(draws.below(static_cast<uint64_t>(layers - 1), 0, 1));
}

}  // namespace gantrain
