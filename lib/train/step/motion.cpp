// SPDX-License-Identifier: Apache-2.0
#include "train/step/motion.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/torch.h"

namespace gantrain {

namespace {

constexpr int64_t kOfEach = 64;  // weights of each parameter

// The first weights of each parameter, of a matrix or kernel those of its first row.
at::Tensor some_weights(const NamedTensors& parameters) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.numel() == 0) continue;
    const at::Tensor row = parameter.dim() > 1 ? parameter[0] : parameter;
    const at::Tensor flat = row.reshape(-1);
    parts.push_back(flat.narrow(0, 0, std::min(kOfEach, flat.numel())).to(at::kFloat));
  }
  return parts.empty() ? at::Tensor() : torch::cat(parts);
}

}  // namespace

Motion::Motion(const std::vector<PlayerState>& players) {
  for (const PlayerState& state : players)
    before_[state.player->name] = some_weights(state.parameters);
}

Statistics Motion::since_last(const std::vector<PlayerState>& players) {
  const torch::NoGradGuard no_grad;
  Statistics statistics;
  for (const PlayerState& state : players) {
    const std::string& name = state.player->name;
    const at::Tensor now = some_weights(state.parameters);
    const at::Tensor before = std::exchange(before_[name], now);
    if (now.defined() && before.defined() && before.sizes() == now.sizes()) {
      const at::Tensor size = now.norm().clamp_min(std::numeric_limits<float>::min());
      statistics.emplace_back("Weights/" + name + "/moved", (now - before).norm() / size);
    }
    if (at::Tensor size = state.optimizer->gradient_size(); size.defined())
      statistics.emplace_back("Gradients/" + name + "/size", std::move(size));
  }
  return statistics;
}

}  // namespace gantrain
