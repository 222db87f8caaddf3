// SPDX-License-Identifier: Apache-2.0
#include "train/step/mixed_precision.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/device.h"
#include "core/torch.h"
#include "ops/adam/adam.h"
#include "train/step/players.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

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

void LossScaler::begin(int64_t left_out) {
  // Each step that was left out may have lowered the scale, and nothing else has.
  const double least = settings_.init * std::pow(settings_.backoff, left_out);
  const double now = scale_.cpu().item<double>();
  constexpr double kRounding = 0.999;
  if (settings_.dynamic ? now >= kRounding * least : now == settings_.init) return;
  const torch::NoGradGuard no_grad;
  scale_.fill_(settings_.init);
  tracker_.zero_();
}

NamedTensors LossScaler::state() const { return {{"scale", scale_}, {"growth_tracker", tracker_}}; }

namespace {

constexpr double kClipEps = 1e-6;  // torch's own

// The beginnings of a parameter's full name: "G", "G.synthesis", "G.synthesis.b16", ...
void add_beginnings(const std::string& name, std::vector<std::string>& all) {
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const std::string part = name.substr(0, dot);
    if (!contains(all, part)) all.push_back(part);
  }
}

std::vector<std::string> blocks_of(const std::vector<PlayerState>& players) {
  std::vector<std::string> all;
  for (const PlayerState& state : players) {
    for (const auto& [name, parameter] : state.parameters)
      add_beginnings(state.player->name + "." + name, all);
  }
  return all;
}

// The choice of precision.cpu_choice; while nothing has been measured, all is float32.
std::shared_ptr<const ProductChoice> choice_of(const PrecisionOptions& options) {
  if (options.cpu_choice == "auto") return std::make_shared<ProductChoice>();
  const std::optional<ProductChoice> choice = choice_from(options.cpu_choice);
  if (!choice) {
    fail(Exit::kUsage,
         "precision.cpu_choice = {}: allowed: auto, float32, bfloat16, or the list of a run's "
         "config.json, \"conv2d 64x8x8 64x64x3x3 p1x1 = bfloat16, ...\"",
         options.cpu_choice);
  }
  return std::make_shared<ProductChoice>(*choice);
}

std::string describe_choice(const std::string& text) {
  const ProductChoice choice = choice_from(text).value_or(ProductChoice());
  const auto lowered =
      std::count_if(choice.begin(), choice.end(), [](const auto& one) { return one.second; });
  if (lowered == 0) return "float32 everywhere: bfloat16 makes nothing faster here";
  return fmt::format("bfloat16 in {} of {} convolutions and products, where it is faster here",
                     lowered,
                     choice.size());
}

}  // namespace

at::Tensor not_finite(const at::Tensor& x) { return (x - x).ne(0); }

GradientGuard::GradientGuard(const GuardSettings& settings, std::string player, at::Device device)
    : settings_(settings),
      player_(std::move(player)),
      reads_are_free_(reads_are_free(device)),
      scaler_(settings.scaler.value_or(ScalerSettings{.init = 1, .dynamic = false}), device),
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
  at::Tensor wrong;  // parameters, where looking for them is what finds the verdict
  if (settings_.scaler || reads_are_free_) {
    look_at(gradients, verdict);
  } else {
    wrong = wrong_parameters(parameters, gradients);
    verdict.found = wrong.any().to(at::kFloat).reshape({1});
  }
  if (reads_are_free_) verdict.finite = read_free(verdict.found) == 0;
  if (verdict.finite == true) {  // what count() would do
    in_a_row_.zero_();
    longest_row_.zero_();
  } else {
    if (!wrong.defined()) wrong = wrong_parameters(parameters, gradients);
    const at::Tensor index = count(verdict.found, wrong);
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
  if (const std::optional<bool> finite = all_finite(gradients)) {
    if (!*finite) verdict.found.fill_(1);
  } else if (!gradients.empty()) {
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, verdict.found, one_);
  }
}

// Returns which parameters have a gradient that is not finite, bool, one for each that is judged,
// with or without a gradient.
at::Tensor GradientGuard::wrong_parameters(const NamedTensors& parameters,
                                           const std::vector<at::Tensor>& gradients) {
  judged_.clear();
  for (const auto& [name, parameter] : parameters) judged_.push_back(name);
  if (gradients.empty())
    return at::zeros({std::max<int64_t>(std::ssize(parameters), 1)},
                     one_.options().dtype(at::kBool));
  const std::vector<at::Tensor> norms =
      at::_foreach_norm(gradients, std::numeric_limits<double>::infinity());
  const at::Tensor none = at::zeros_like(norms.front());
  std::vector<at::Tensor> largest;
  size_t next = 0;
  for (const auto& [name, parameter] : parameters)
    largest.push_back(parameter.grad().defined() ? norms[next++] : none);
  return not_finite(at::stack(largest));
}

// Counts the step with operators on the device. Returns the index of the first parameter that is
// wrong, int64 [1].
at::Tensor GradientGuard::count(const at::Tensor& found, const at::Tensor& wrong) {
  const at::Tensor bad = found.reshape({1}) > 0;
  skipped_.add_(bad);
  in_a_row_.copy_(at::where(bad, in_a_row_ + 1, at::zeros_like(in_a_row_)));
  longest_row_.copy_(at::maximum(longest_row_, in_a_row_));
  const at::Tensor index = wrong.to(at::kLong).argmax().reshape({1});
  first_index_.copy_(at::where(in_a_row_ == 1, index, first_index_));
  return index;
}

void GradientGuard::begin() {
  const torch::NoGradGuard no_grad;
  longest_row_.copy_(in_a_row_);
  settled_skipped_ = static_cast<int64_t>(read_free(skipped_.cpu()));
  scaler_.begin(settled_skipped_);
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
       "{} of {} in a row had a gradient that is not finite (train.nonfinite_limit), the "
       "first that of {}: training has diverged; lower the learning rate, or resume from an "
       "earlier state",
       counted(in_a_row, "step"),
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

// Clips as torch's clip_grad_norm_ and clip_grad_value_ do. Returns the norm before clipping, or an
// undefined tensor where no clipping is asked for.
at::Tensor GradientGuard::clip(std::vector<at::Tensor>& gradients) const {
  const auto& [largest_norm, largest] = settings_.optim;
  if (largest_norm <= 0 && largest <= 0) return {};
  if (gradients.empty()) return torch::zeros({}, one_.options());
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2)).norm();
  if (largest_norm > 0) {
    const at::Tensor factor = (largest_norm / (norm + kClipEps)).clamp_max(1);
    for (at::Tensor& g : gradients) g.mul_(factor);
  }
  if (largest > 0) {
    for (at::Tensor& g : gradients) g.clamp_(-largest, largest);
  }
  return norm;
}

NamedTensors GradientGuard::state() const {
  NamedTensors all = scaler_.state();
  all.emplace_back("skipped", skipped_);
  all.emplace_back("in_a_row", in_a_row_);
  return all;
}

ForwardPrecision forward_precision(const PrecisionOptions& options,
                                   at::Device device,
                                   const std::vector<PlayerState>& players) {
  ForwardPrecision precision;
  const ComputeType type = compute_type(options, is_gpu(device));
  if (chooses_by_product(options, is_gpu(device))) {
    precision.choice = choice_of(options);
  } else if (type != ComputeType::kFloat32 && options.mode == PrecisionMode::kAutocast) {
    precision.autocast_type = type == ComputeType::kFloat16 ? at::kHalf : at::kBFloat16;
  }
  const std::vector<std::string> known = blocks_of(players);
  for (const std::string& part : split(options.keep_float32, ',')) {
    const std::string name = trim(part);
    if (name.empty()) continue;
    if (!contains(known, name)) {
      fail(Exit::kUsage,
           "precision.keep_float32 = {}: {} is no network or block of this recipe{}",
           options.keep_float32,
           name,
           did_you_mean(name, known));
    }
    precision.keep_float32.push_back(name);
  }
  return precision;
}

GuardSettings guard_settings(const PrecisionOptions& options,
                             const TrainOptions& train,
                             const OptimOptions& optim,
                             at::Device device) {
  GuardSettings settings;
  const bool dynamic = scales_dynamically(options);
  const bool fixed = options.loss_scale.kind == LossScale::Kind::kFixed;
  if (compute_type(options, is_gpu(device)) == ComputeType::kFloat16 && (dynamic || fixed)) {
    settings.scaler = {dynamic ? options.initial_scale : options.loss_scale.fixed,
                       options.growth_factor,
                       options.backoff_factor,
                       options.growth_interval,
                       dynamic};
  }
  settings.min_scale = options.min_scale;
  settings.nonfinite = train.nonfinite;
  settings.optim = optim;
  return settings;
}

std::string describe_precision(const PrecisionOptions& options, at::Device device) {
  const ComputeType type = compute_type(options, is_gpu(device));
  if (type == ComputeType::kFloat32) return "";
  const bool half = type == ComputeType::kFloat16;
  if (chooses_by_product(options, is_gpu(device))) return describe_choice(options.cpu_choice);
  std::string text =
      fmt::format("{} {}",
                  half ? "float16" : "bfloat16",
                  options.mode == PrecisionMode::kBlocks ? "in blocks" : "by autocast");
  if (half && scales_dynamically(options)) {
    text += fmt::format(", loss scale dynamic from {}", shortest(options.initial_scale));
  } else if (half && options.loss_scale.kind == LossScale::Kind::kFixed) {
    text += fmt::format(", loss scale {}", shortest(options.loss_scale.fixed));
  }
  if (!half && options.loss_scale.kind == LossScale::Kind::kFixed)
    text +=
        fmt::format("; loss scale {} is float16's: not used", shortest(options.loss_scale.fixed));
  if (half && device.is_cpu()) text += "; on a CPU its arithmetic is float32's";
  return text;
}

void choose_algorithms(bool deterministic) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicCuDNN(deterministic);
  // Which algorithm wins a race depends on the moment, and their bits differ.
  context.setBenchmarkCuDNN(!deterministic);
  // One of the two settings with which NVIDIA promises equal bits; LibTorch refuses matrix products
  // on a GPU without one of them while algorithms have to be deterministic.
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace gantrain
