// SPDX-License-Identifier: Apache-2.0
#include "augment/ada.h"

#include "augment/augment.h"
#include "core/torch.h"
#include "util/error.h"

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

Ada::Ada(const AdaOptions& options, const AugmentOptions& transforms, const Pictures& pictures)
    : options_(options),
      transforms_(transforms),
      strength_(options.adaptive, pictures.batch, pictures.device) {
  if (options.mode != Augmentation::kNone)
    check_augment(transforms, pictures.resolution, pictures.channels);
  strength_.set(options.mode == Augmentation::kNone ? 0 : options.p.at(0));
  if (options.mode == Augmentation::kFixed && !options.p.is_constant()) {
    fixed_p_ = {[p = options.p](int64_t images_seen) { return p.at(images_seen); },
                at::TensorOptions().device(pictures.device).dtype(at::kDouble)};
  } else if (options.mode == Augmentation::kFixed) {
    fixed_p_ = options.p.at(0);
  }
}

Tensor Ada::operator()(const Tensor& x, const DrawKey& key, const Samples& samples) const {
  if (options_.mode == Augmentation::kNone) return x;
  StreamDraws draws(key, samples);
  return augment(x, p(), transforms_, draws);
}

void Ada::end_iteration(int64_t iteration) {
  if (options_.mode == Augmentation::kAda) strength_.end_iteration(iteration);
}

std::vector<std::string> Ada::warnings(const std::string& gamma) {
  const std::optional<double> p = strength_.crossed_warning();
  if (!p || options_.mode != Augmentation::kAda) return {};
  return {fmt::format(
      "augmentation p = {:.2f}: from here on it may leak into the pictures; D overfits: more data, "
      "or a larger {}",
      *p,
      gamma)};
}

NamedTensors Ada::state() const {
  NamedTensors all;
  for (const auto& [name, tensor] : strength_.state()) all.emplace_back("ada/" + name, tensor);
  return all;
}

}  // namespace gantrain
