// SPDX-License-Identifier: Apache-2.0
#include "train/gradient_guard.h"

#include "core/device_reads.h"
#include "core/torch.h"
#include "ops/all_finite.h"
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
  NamedTensors named;
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    named.emplace_back(name, gradient);
    gradients.push_back(gradient);
  }
  GradientVerdict verdict;
  look_at(gradients, verdict);
  if (!reads_are_free_) {
    count_on_device(verdict.found, parameters, gradients);
    verdict.norm = clip(gradients);
    return verdict;
  }
  verdict.finite = read_free(verdict.found) == 0;
  if (*verdict.finite) {
    in_a_row_.zero_();
    verdict.norm = clip(gradients);
  } else {
    count_on_host(first_nonfinite(named));
  }
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

void GradientGuard::count_on_host(const std::string& parameter) {
  skipped_.add_(1);
  in_a_row_.add_(1);
  draw_consequences(parameter, static_cast<int64_t>(read_free(in_a_row_)));
}

// Makes the same counts with operators on the device. Of the parameters it remembers the first
// whose gradient is not finite, by its index among all parameters that were judged, with or without
// a gradient.
void GradientGuard::count_on_device(const at::Tensor& found,
                                    const NamedTensors& parameters,
                                    const std::vector<at::Tensor>& gradients) {
  const at::Tensor bad = found.reshape({1}) > 0;
  skipped_.add_(bad);
  in_a_row_.copy_(at::where(bad, in_a_row_ + 1, at::zeros_like(in_a_row_)));
  longest_row_.copy_(at::maximum(longest_row_, in_a_row_));
  judged_.clear();
  for (const auto& [name, parameter] : parameters) judged_.push_back(name);
  if (gradients.empty()) return;
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
}

void GradientGuard::begin() {
  if (reads_are_free_) return;
  const torch::NoGradGuard no_grad;
  longest_row_.copy_(in_a_row_);
  settled_skipped_ = static_cast<int64_t>(read_free(skipped_.cpu()));
}

void GradientGuard::settle() {
  if (reads_are_free_) return;
  const torch::NoGradGuard no_grad;
  const at::Tensor counts = at::cat({skipped_, longest_row_, first_index_}).cpu();
  const int64_t* count = counts.const_data_ptr<int64_t>();
  longest_row_.copy_(in_a_row_);  // a row may go on
  const int64_t fresh = count[0] - settled_skipped_;
  settled_skipped_ = count[0];
  if (fresh <= 0) return;
  first_.clear();
  draw_consequences(judged_.at(static_cast<size_t>(count[2])), count[1]);
}

double GradientGuard::scale_now() const {
  return read_free(reads_are_free_ ? scaler_.current() : scaler_.current().cpu());
}

void GradientGuard::draw_consequences(const std::string& parameter, int64_t in_a_row) {
  const bool dynamic = settings_.scaler && settings_.scaler->dynamic;
  const std::string what = player_ + "." + parameter;
  if (in_a_row == 1 || first_.empty()) first_ = what;
  if (dynamic) {
    // A dynamic scale is expected to overflow now and then: it searches for the largest scale that
    // fits.
    debug("the gradient of {} is not finite: step left out, loss scale {}",
          what,
          number(scale_now()));
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
      number(scale),
      number(settings_.min_scale),
      first_);
}

namespace {

constexpr double kClipEps = 1e-6;  // torch's own

void clamp(std::vector<at::Tensor>& gradients, double largest) {
  if (largest <= 0) return;
  for (at::Tensor& g : gradients) g.clamp_(-largest, largest);
}

}  // namespace

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
