// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/augment_draws.h"

#include <torch/torch.h>

namespace gantrain::stylegan2 {

Stream StreamDraws::stream(const std::string& name) const {
  return {key_.seed,
          "augment/" + name,
          static_cast<uint64_t>(key_.iteration),
          static_cast<uint64_t>(key_.phase)};
}

at::Tensor StreamDraws::uniform(const std::string& name, at::IntArrayRef shape) {
  return gantrain::uniform(stream(name), samples_, shape);
}

at::Tensor StreamDraws::normal(const std::string& name, at::IntArrayRef shape) {
  return gantrain::normal(stream(name), samples_, shape);
}

std::unique_ptr<Draws> StreamDraws::whole_batch() const {
  if (samples_.stride == 1) return nullptr;
  return std::make_unique<StreamDraws>(key_, Samples{0, 1, samples_.stride * samples_.count});
}

Drawn draw(const Transform& transform, Draws& draws) {
  const auto each = static_cast<int64_t>(transform.numbers);
  const at::Tensor numbers = transform.distribution == Distribution::kUniform
                                 ? draws.uniform(transform.name, {each})
                                 : draws.normal(transform.name, {each});
  const at::Tensor decisions = draws.uniform(transform.name + "/on", {});
  Drawn drawn;
  const float* number = numbers.const_data_ptr<float>();
  drawn.number.assign(number, number + numbers.numel());
  for (int64_t n = 0; n < decisions.numel(); ++n) {
    drawn.on.push_back(decisions.const_data_ptr<float>()[n] < transform.probability);
  }
  return drawn;
}

at::Tensor sent_to(const at::Tensor& numbers, const at::Tensor& like) {
  const at::Tensor host = numbers.to(like.scalar_type());
  if (!like.is_cuda()) return host.to(like.device());
  return host.pin_memory().to(like.device(), /*non_blocking=*/true);
}

}  // namespace gantrain::stylegan2
