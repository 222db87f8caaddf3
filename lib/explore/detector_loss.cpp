// SPDX-License-Identifier: Apache-2.0
#include "explore/detector_loss.h"

#include <algorithm>

#include "core/torch.h"
#include "metrics/detector.h"

namespace gantrain {

namespace {

constexpr int64_t kLargest = 256;  // pixels a side
constexpr int64_t kAtOnce = 8;     // targets that the network sees at a time

// Values in [-1, 1] as a detector takes them.
at::Tensor shown(const at::Tensor& pictures) {
  const at::Tensor x = pictures * 127.5 + 127.5;
  const int64_t longer = std::max(x.size(2), x.size(3));
  if (longer <= kLargest) return x;
  return torch::adaptive_avg_pool2d(x,
                                    {x.size(2) * kLargest / longer, x.size(3) * kLargest / longer});
}

}  // namespace

FurtherLoss detector_loss(const std::shared_ptr<Detector>& detector, const at::Tensor& targets) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& some : targets.split(kAtOnce))
    parts.push_back(detector->differentiable(shown(some)));
  const at::Tensor wanted = torch::cat(parts);
  const bool lpips = detector->has_lpips();
  const at::Tensor lengths = wanted.square().sum(1).clamp_min(1e-12);
  return [detector, wanted, lengths, lpips](const at::Tensor& pictures, const at::Tensor& rows) {
    const at::Tensor seen = detector->differentiable(shown(pictures));
    const at::Tensor distance = (seen - wanted.index_select(0, rows)).square().sum(1);
    return lpips ? distance : distance / lengths.index_select(0, rows);
  };
}

}  // namespace gantrain
