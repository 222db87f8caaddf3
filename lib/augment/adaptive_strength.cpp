// SPDX-License-Identifier: Apache-2.0
#include "augment/adaptive_strength.h"

#include "core/torch.h"

namespace gantrain {

using at::Tensor;

namespace {
constexpr double kWarnFrom = .8;
}

AdaptiveStrength::AdaptiveStrength(const AdaptiveOptions& options, int64_t batch, at::Device device)
    : options_(options),
      step_(static_cast<double>(batch * options.interval) /
            static_cast<double>(options.kimg.images)),
      p_(at::zeros({}, at::TensorOptions(device).dtype(at::kDouble))),
      signs_(at::zeros({2}, at::TensorOptions(device).dtype(at::kDouble))) {}

void AdaptiveStrength::set(double p) {
  const torch::NoGradGuard no_grad;
  p_.fill_(p);
}

Tensor AdaptiveStrength::signs(const Tensor& real_scores) {
  const Tensor sign = real_scores.detach().sign();
  return at::stack({sign.sum(), at::full_like(sign.sum(), real_scores.numel())});
}

void AdaptiveStrength::add(const Tensor& sums) {
  const torch::NoGradGuard no_grad;
  signs_.add_(sums);
}

void AdaptiveStrength::end_iteration(int64_t iteration) {
  if ((iteration + 1) % options_.interval != 0) return;
  const torch::NoGradGuard no_grad;
  const Tensor sum = signs_.select(0, 0), count = signs_.select(0, 1);
  const Tensor r = at::where(count > 0, sum / count, options_.target);
  // Neither comparison holds for what is no number.
  const Tensor above = (r > options_.target).to(at::kDouble);
  const Tensor below = (r < options_.target).to(at::kDouble);
  p_.add_((above - below) * step_).clamp_(0, 1);
  signs_.zero_();
}

std::optional<double> AdaptiveStrength::crossed_warning() {
  if (warned_) return {};
  const double p = p_.item<double>();
  if (p < kWarnFrom) return {};
  warned_ = true;
  return p;
}

}  // namespace gantrain
