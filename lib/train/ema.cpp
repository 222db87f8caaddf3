// SPDX-License-Identifier: Apache-2.0
#include "train/ema.h"

#include <cmath>

#include "core/torch.h"
#include "ops/adam.h"

namespace gantrain {

double ema_beta(const EmaOptions& o, int64_t images_seen, int64_t batch) {
  double half_life = o.half_life.at(images_seen);
  if (o.rampup > 0) half_life = std::min(half_life, static_cast<double>(images_seen) * o.rampup);
  return half_life <= 0 ? 0 : std::pow(0.5, static_cast<double>(batch) / half_life);
}

void update_ema(torch::nn::Module& average,
                const torch::nn::Module& source,
                const DeviceNumber& weight) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> averages = average.parameters();
  lerp_(averages, source.parameters(), weight);
  const std::vector<at::Tensor> from = source.buffers();
  std::vector<at::Tensor> to = average.buffers();
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

}  // namespace gantrain
