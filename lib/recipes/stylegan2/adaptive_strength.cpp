// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/adaptive_strength.h"

#include <torch/torch.h>

#include <algorithm>

namespace gantrain::stylegan2 {

namespace {
constexpr double kWarnFrom = .8;
}

AdaptiveStrength::AdaptiveStrength(const AdaptiveOptions& options, int64_t batch, at::Device device)
    : options_(options),
      step_(static_cast<double>(batch * options.interval) /
            static_cast<double>(options.kimg.images)),
      p_(at::zeros({}, at::kDouble)),
      signs_(at::zeros({2}, at::TensorOptions(device).dtype(at::kDouble))) {}

double AdaptiveStrength::p() const { return p_.item<double>(); }

at::Tensor AdaptiveStrength::signs(const at::Tensor& real_scores) {
  const at::Tensor sign = real_scores.detach().sign();
  return at::stack({sign.sum(), at::full_like(sign.sum(), real_scores.numel())});
}

void AdaptiveStrength::end_iteration(int64_t iteration, const at::Tensor& sums) {
  const torch::NoGradGuard no_grad;
  signs_ += sums.to(signs_);
  if ((iteration + 1) % options_.interval != 0) return;
  const at::Tensor total = signs_.cpu();
  const double sum = total[0].item<double>(), count = total[1].item<double>();
  signs_.zero_();
  const double r = count > 0 ? sum / count : options_.target;
  const double direction = r > options_.target ? 1 : r < options_.target ? -1 : 0;
  p_.fill_(std::clamp(p() + direction * step_, 0.0, 1.0));
}

bool AdaptiveStrength::should_warn() {
  if (warned_ || p() < kWarnFrom) return false;
  warned_ = true;
  return true;
}

}  // namespace gantrain::stylegan2
