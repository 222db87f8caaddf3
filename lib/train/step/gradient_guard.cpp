// SPDX-License-Identifier: Apache-2.0
#include "train/step/gradient_guard.h"

#include "core/device.h"
#include "core/torch.h"
#include "ops/adam/adam.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

LossScaler::LossScaler(const ScalerSettings& settings, at::Device device)
    : settings_(settings),
      scale_(torch::full({1}, settings.init, at::TensorOptions(device).dtype(at::kFloat))),
      tracker_(torch::zeros({1}, at::TensorOptions(device).dtype(at::kInt))) {}

at::Tensor LossScaler::scale(const at::Tensor& loss) const {
  return loss.to(at::kFloat) * scale_.squeeze(0);
}

at::Tensor LossScaler::unscale_(const std::vector<at::Tensor>& gradients) const {
  const torch::NoGradGuard no_grad;
  at::Tensor found = torch::zeros({1}, scale_.options());
  // In float64, then rounded, as GradScaler has it: exact for powers of two.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  std::vector<at::Tensor> defined;
  for (const at::Tensor& g : gradients) {
    if (g.defined()) defined.push_back(g);
  }
  if (!defined.empty()) at::_amp_foreach_non_finite_check_and_unscale_(defined, found, inverse);
  return found.squeeze(0);
}

void LossScaler::update(const at::Tensor& found_nonfinite) {
  if (!settings_.dynamic) return;
  const torch::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_,
                         tracker_,
                         found_nonfinite.reshape({1}),
                         settings_.growth,
                         settings_.backoff,
                         settings_.interval);
}

NamedTensors LossScaler::state() const { return {{"scale", scale_}, {"growth_tracker", tracker_}}; }

namespace {

ScalerSettings scaler_settings(const GuardSettings& s) {
  return s.scaler.value_or(ScalerSettings{.init = 1, .dynamic = false});
}

constexpr double kClipEps = 1e-6;  // torch's own

void clamp(std::vector<at::Tensor>& gradients, double largest) {
  if (largest <= 0) return;
  for (at::Tensor& g : gradients) g.clamp_(-largest, largest);
}

}  // namespace

GradientGuard::GradientGuard(const GuardSettings& settings, std::string player, at::Device device)
    : settings_(settings),
      player_(std::move(player)),
      reads_are_free_(reads_are_free(device)),
      scaler_(scaler_settings(settings), device),
      one_(torch::ones({1}, at::TensorOptions(device).dtype(at::kFloat))),
      skipped_(torch::zeros({1}, at::TensorOptions(device).dtype(at::kLong))),
      in_a_row_(torch::zeros_like(skipped_)),
      longest_row_(torch::zeros_like(skipped_)),
      first_index_(torch::zeros_like(skipped_)) {}

at::Tensor GradientGuard::scaled(const at::Tensor& loss) const {
  return settings_.scaler ? scaler_.scale(loss) : loss;
}

GradientVerdict GradientGuard::judge(const NamedTensors& parameters) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  GradientVerdict verdict;
  look_at(gradients, verdict);
  if (reads_are_free_) verdict.finite = read_free(verdict.found) == 0;
  if (verdict.finite == true) {  // what count() would do
    in_a_row_.zero_();
    longest_row_.zero_();
  } else {
    const at::Tensor index = count(verdict.found, parameters, gradients);
    if (verdict.finite) report(index);
  }
  if (verdict.finite.value_or(true)) verdict.norm = clip(gradients);
  return verdict;
}

// Unscales the gradients and sets the verdict's `found` and `scale`.
void GradientGuard::look_at(const std::vector<at::Tensor>& gradients, GradientVerdict& verdict) {
  if (settings_.scaler) {
    verdict.scale = scaler_.current().clone();
    verdict.found = scaler_.unscale_(gradients);
    scaler_.update(verdict.found);
    return;
  }
  verdict.found = torch::zeros({1}, one_.options());
  if (reads_are_free_) {
    if (const std::optional<bool> finite = all_finite(gradients)) {
      if (!*finite) verdict.found.fill_(1);
      return;
    }
  }
  if (!gradients.empty())
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, verdict.found, one_);
}

// Counts the step with operators on the device. Returns the index of the first parameter whose
// gradient is not finite, int64 [1], among all parameters that were judged, with or without a
// gradient.
at::Tensor GradientGuard::count(const at::Tensor& found,
                                const NamedTensors& parameters,
                                const std::vector<at::Tensor>& gradients) {
  const at::Tensor bad = found.reshape({1}) > 0;
  skipped_.add_(bad);
  in_a_row_.copy_(at::where(bad, in_a_row_ + 1, at::zeros_like(in_a_row_)));
  longest_row_.copy_(at::maximum(longest_row_, in_a_row_));
  judged_.clear();
  for (const auto& [name, parameter] : parameters) judged_.push_back(name);
  if (gradients.empty()) return at::zeros_like(first_index_);
  const std::vector<at::Tensor> norms =
      at::_foreach_norm(gradients, std::numeric_limits<double>::infinity());
  const at::Tensor none = at::zeros_like(norms.front());
  std::vector<at::Tensor> largest;
  size_t next = 0;
  for (const auto& [name, parameter] : parameters)
    largest.push_back(parameter.grad().defined() ? norms[next++] : none);
  const at::Tensor index =
      at::stack(largest).isfinite().logical_not().to(at::kLong).argmax().reshape({1});
  first_index_.copy_(at::where(in_a_row_ == 1, index, first_index_));
  return index;
}

void GradientGuard::begin() {
  const torch::NoGradGuard no_grad;
  longest_row_.copy_(in_a_row_);
  settled_skipped_ = static_cast<int64_t>(read_free(skipped_.cpu()));
}

void GradientGuard::settle() {
  if (!reads_are_free_) report(first_index_);
}

// Tells of the steps left out since the last call, the last of them because of the parameter of
// that index.
void GradientGuard::report(const at::Tensor& index) {
  const torch::NoGradGuard no_grad;
  const at::Tensor counts = at::cat({skipped_, longest_row_, index}).cpu();
  const int64_t* count = counts.const_data_ptr<int64_t>();
  longest_row_.copy_(in_a_row_);  // a row may go on
  const int64_t fresh = count[0] - settled_skipped_;
  settled_skipped_ = count[0];
  if (fresh <= 0) return;
  const std::string what = player_ + "." + judged_.at(static_cast<size_t>(count[2]));
  // Where each step is told of, the row's first one was the one that was told of first.
  if (!reads_are_free_ || count[1] == 1 || first_.empty()) first_ = what;
  warn_or_stop(what, count[1]);
}

double GradientGuard::scale_now() const { return read_free(scaler_.current().cpu()); }

void GradientGuard::warn_or_stop(const std::string& what, int64_t in_a_row) {
  const bool dynamic = settings_.scaler && settings_.scaler->dynamic;
  if (dynamic) {
    // A dynamic scale is expected to overflow now and then: it searches for the largest scale that
    // fits.
    debug("the gradient of {} is not finite: step left out, loss scale {}",
          what,
          shortest(scale_now()));
    check_floor();
  } else if (settings_.nonfinite.action == OnNonfinite::kStop) {
    fail(Exit::kDiverged,
         "the gradient of {} is not finite (train.on_nonfinite = stop): training has diverged; "
         "lower the learning rate, or resume from an earlier state",
         what);
  } else {
    warn("the gradient of {} is not finite: step left out ({} in a row)", what, in_a_row);
  }
  if (in_a_row < settings_.nonfinite.limit) return;
  fail(Exit::kDiverged,
       "{} steps of {} in a row had a gradient that is not finite (train.nonfinite_limit), the "
       "first that of {}: training has diverged; lower the learning rate, or resume from an "
       "earlier state",
       in_a_row,
       player_,
       first_);
}

void GradientGuard::check_floor() const {
  const double scale = scale_now();
  if (scale >= settings_.min_scale) return;
  fail(
      Exit::kDiverged,
      "the loss scale of {} fell to {}, below precision.min_scale = {}: the gradient of {} was the "
      "first not to be finite; lower the learning rate, use --amp=bf16, or keep its block in "
      "precision.keep_float32",
      player_,
      shortest(scale),
      shortest(settings_.min_scale),
      first_);
}

bool GradientGuard::clips() const {
  return settings_.optim.clip_norm > 0 || settings_.optim.clip_value > 0;
}

// Clips as torch's clip_grad_norm_ and clip_grad_value_ do. Returns the norm before clipping, or an
// undefined tensor where no clipping is asked for.
at::Tensor GradientGuard::clip(std::vector<at::Tensor>& gradients) const {
  if (!clips()) return {};
  if (gradients.empty()) return torch::zeros({}, one_.options());
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2)).norm();
  if (settings_.optim.clip_norm > 0) {
    const at::Tensor factor = (settings_.optim.clip_norm / (norm + kClipEps)).clamp_max(1);
    for (at::Tensor& g : gradients) g.mul_(factor);
  }
  clamp(gradients, settings_.optim.clip_value);
  return norm;
}

NamedTensors GradientGuard::state() const {
  NamedTensors all = scaler_.state();
  all.emplace_back("skipped", skipped_);
  all.emplace_back("in_a_row", in_a_row_);
  return all;
}

}  // namespace gantrain
