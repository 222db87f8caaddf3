// SPDX-License-Identifier: Apache-2.0
#include "gan/phase.h"

#include <numeric>

#include "core/torch.h"
#include "distributed/gradient_sync.h"

namespace gantrain {

using at::Tensor;

void Player::called(const std::string& part, const at::Tensor& output) const {
  if (sync != nullptr) sync->forwarded(part, output);
}

BlockScope Player::as_block(const std::string& part) const {
  return BlockScope(part.empty() ? name : name + "." + part);
}

PhaseOutput Phase::run(const PhaseInput& input) const {
  RunningStatistics running;
  PhaseOutput output;
  {
    const RunningStatisticsScope noted(running);
    output = loss(input);
  }
  output.running.add(running);
  return output;
}

std::vector<Phase> alternating_phases(Player& D,
                                      const PhaseLoss& d_loss,
                                      Player& G,
                                      const PhaseLoss& g_loss) {
  std::vector<Phase> phases;
  phases.push_back({"D", D, d_loss});
  const int64_t turn = D.options.steps;
  for (int64_t i = 0; i < G.options.steps; ++i) {
    const std::string name = i == 0 ? "G" : "G" + std::to_string(i + 1);
    phases.push_back({name, G, g_loss, {turn, turn - 1}});
  }
  for (Phase& phase : phases) phase.all_parameters_used = true;
  return phases;
}

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
