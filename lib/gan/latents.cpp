// SPDX-License-Identifier: Apache-2.0
#include "gan/latents.h"

#include <numeric>

#include "core/torch.h"

namespace gantrain {

using at::Tensor;

Latents::Latents(int64_t z_dim, const std::vector<int64_t>& class_counts, at::Device device)
    : z_dim_(z_dim) {
  if (class_counts.empty()) return;
  std::vector<int64_t> sums(class_counts.size());
  std::partial_sum(class_counts.begin(), class_counts.end(), sums.begin());
  pictures_ = sums.back();
  first_above_ = torch::tensor(sums, at::kLong).to(device);
}

Tensor Latents::z(const PhaseInput& in, int64_t which) const {
  return normal(in.key, which == 0 ? "z" : "z/mixed", in.samples, {z_dim_}).to(in.real.options());
}

Tensor Latents::labels(const PhaseInput& in) const {
  if (!first_above_.defined()) return {};
  return drawn_classes(in.key, "labels", in.samples, first_above_, pictures_);
}

Tensor Latents::mixing_cutoff(const PhaseInput& in, double probability, int64_t layers) const {
  return drawn_cutoff(in.key, "mixing", probability, layers);
}

}  // namespace gantrain
