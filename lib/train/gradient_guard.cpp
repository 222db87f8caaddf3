// SPDX-License-Identifier: Apache-2.0
#include "train/gradient_guard.h"

#include <torch/torch.h>

#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

ScalerSettings scaler_settings(const GuardSettings& s) {
  return s.scaler.value_or(ScalerSettings{.init = 1, .dynamic = false});
}

}  // namespace

GradientGuard::GradientGuard(const GuardSettings& settings, std::string player, at::Device device)
    : settings_(settings),
      player_(std::move(player)),
      scaler_(scaler_settings(settings), device),
      one_(torch::ones({1}, at::TensorOptions(device).dtype(at::kFloat))),
      skipped_(torch::zeros({1}, at::TensorOptions(device).dtype(at::kLong))),
      in_a_row_(torch::zeros_like(skipped_)) {}

at::Tensor GradientGuard::scaled(const at::Tensor& loss) const {
  return settings_.scaler ? scaler_.scale(loss) : loss;
}

GradientReport GradientGuard::check(const NamedTensors& parameters) {
  const torch::NoGradGuard no_grad;
  NamedTensors named;
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    named.emplace_back(name, gradient);
    gradients.push_back(gradient);
  }
  GradientReport report;
  at::Tensor found;
  if (settings_.scaler) {
    report.scale = scaler_.current().item<double>();
    found = scaler_.unscale_(gradients);
  } else {
    found = torch::zeros({1}, one_.options());
    if (!gradients.empty()) at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, one_);
  }
  report.finite = found.item<double>() == 0;
  if (settings_.scaler) scaler_.update(found);
  if (report.finite) {
    in_a_row_.zero_();
    if (settings_.optim.clip_norm > 0 || settings_.optim.clip_value > 0)
      report.norm = clip(gradients);
  } else {
    see_nonfinite(first_nonfinite(named));
  }
  return report;
}

void GradientGuard::see_nonfinite(const std::string& parameter) {
  const bool dynamic = settings_.scaler && settings_.scaler->dynamic;
  const std::string what = player_ + "." + parameter;
  skipped_.add_(1);
  in_a_row_.add_(1);
  const auto row = in_a_row_.item<int64_t>();
  if (row == 1 || first_.empty()) first_ = what;
  if (dynamic) {
    // Looking for the largest scale that fits is a dynamic scale's daily work.
    debug("the gradient of {} is not finite: step left out, loss scale {}",
          what,
          number(scaler_.current().item<double>()));
    check_floor();
  } else if (settings_.on_nonfinite == OnNonfinite::kStop) {
    fail(Exit::kDiverged,
         "the gradient of {} is not finite (train.on_nonfinite = stop): training has diverged; "
         "lower the learning rate, or resume from an earlier state",
         what);
  } else {
    warn("the gradient of {} is not finite: step left out ({} in a row)", what, row);
  }
  if (row < settings_.limit) return;
  fail(Exit::kDiverged,
       "{} steps of {} in a row had a gradient that is not finite (train.nonfinite_limit), the "
       "first that of {}: training has diverged; lower the learning rate, or resume from an "
       "earlier state",
       row,
       player_,
       first_);
}

void GradientGuard::check_floor() const {
  const auto scale = scaler_.current().item<double>();
  if (scale >= settings_.min_scale) return;
  fail(
      Exit::kDiverged,
      "the loss scale of {} fell to {}, below precision.min_scale = {}: the gradient of {} was the "
      "first not to be finite; lower the learning rate, use --amp=bf16, or keep its block in "
      "precision.keep_float32",
      player_,
      number(scale),
      number(settings_.min_scale),
      first_);
}

// As torch's clip_grad_norm_ and clip_grad_value_. Returns the norm before.
double GradientGuard::clip(std::vector<at::Tensor>& gradients) const {
  if (gradients.empty()) return 0;
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2)).norm();
  if (settings_.optim.clip_norm > 0) {
    constexpr double kEps = 1e-6;
    const at::Tensor factor = (settings_.optim.clip_norm / (norm + kEps)).clamp_max(1);
    for (at::Tensor& g : gradients) g.mul_(factor);
  }
  if (settings_.optim.clip_value > 0) {
    for (at::Tensor& g : gradients)
      g.clamp_(-settings_.optim.clip_value, settings_.optim.clip_value);
  }
  return norm.item<double>();
}

NamedTensors GradientGuard::state() const {
  NamedTensors all = scaler_.state();
  all.emplace_back("skipped", skipped_);
  all.emplace_back("in_a_row", in_a_row_);
  return all;
}

}  // namespace gantrain
