// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/random.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "explore/projection.h"
#include "metrics/detector.h"
#include "ops/adam/adam.h"

namespace gantrain {

namespace {

constexpr int64_t kSamples = 10'000;
constexpr uint32_t kSampleSeed = 123;  // numpy's RandomState(123), as the reference's projector
constexpr int64_t kBatch = 1000;

Tensor sample_latents(int64_t z_dim) {
  const std::vector<double> draws = NumpyRandom(kSampleSeed).randn(kSamples * z_dim);
  return torch::tensor(draws, at::kDouble).to(at::kFloat).view({kSamples, z_dim});
}

}  // namespace

LatentSpace::LatentSpace(Generator& generator,
                         const SynthesisOptions& options,
                         ProjectionSpace space,
                         const Tensor& labels)
    : generator_(generator), options_(options), space_(space), labels_(labels) {
  samples_ = sample_latents(generator.z_dim());
  if (space != ProjectionSpace::kZ) {
    std::vector<Tensor> parts;
    for (int64_t first = 0; first < kSamples; first += kBatch) {
      const Tensor numbers = torch::arange(first, first + kBatch);
      const Tensor z = samples_.narrow(0, first, kBatch);
      parts.push_back(generator.map(z, labels_of(numbers), {}).narrow(1, 0, 1));
    }
    samples_ = torch::cat(parts).cpu();  // as those of z
  }
  const Tensor exact = samples_.to(at::kDouble);
  const Tensor mean = exact.mean(0, /*keepdim=*/true);
  deviation_ = std::sqrt((exact - mean).square().sum().item<double>() / kSamples);
}

Tensor LatentSpace::labels_of(const Tensor& numbers) const {
  if (!labels_.defined()) return {};
  const Tensor all = labels_.to(numbers.device());
  return all.index_select(0, numbers.remainder(all.size(0)));
}

Tensor LatentSpace::unfolded(const Tensor& rows) const {
  if (space_ != ProjectionSpace::kWPlus) return rows.clone();
  return rows.expand({rows.size(0), generator_.num_ws(), rows.size(2)}).contiguous();
}

Tensor LatentSpace::pictures(const Tensor& latents, const Tensor& labels, bool gradients) const {
  SynthesisOptions options = options_;
  options.gradients = gradients;
  if (space_ == ProjectionSpace::kZ) return generator_.images(latents, labels, options);
  return generator_.synthesize(for_files(latents), options);
}

Tensor LatentSpace::for_files(const Tensor& latents) const {
  if (space_ != ProjectionSpace::kW) return latents;
  return latents.expand({latents.size(0), generator_.num_ws(), latents.size(2)});
}

namespace {

constexpr int64_t kSmallest = 4;  // pixels of a level's shorter side

bool can_halve(const Tensor& pictures) {
  return std::min(pictures.size(2), pictures.size(3)) >= 2 * kSmallest;
}

// Pictures are cut off at both ends of the range when they become bytes: what lies beyond a target
// there is no difference.
Tensor cut_off(const Tensor& pictures, const Tensor& targets) {
  constexpr double kEnd = 1 - 1.0 / 255;
  const Tensor beyond = (targets.ge(kEnd).logical_and(pictures.gt(targets)))
                            .logical_or(targets.le(-kEnd).logical_and(pictures.lt(targets)));
  return torch::where(beyond, targets, pictures);
}

Tensor halved(const Tensor& pictures) { return torch::avg_pool2d(pictures, 2); }

}  // namespace

PyramidLoss::PyramidLoss(const Tensor& targets) {
  levels_.push_back(targets);
  while (can_halve(levels_.back())) levels_.push_back(halved(levels_.back()));
}

Tensor PyramidLoss::operator()(const Tensor& pictures, const Tensor& rows) const {
  Tensor sum, level = cut_off(pictures, levels_.front().index_select(0, rows));
  for (size_t i = 0; i < levels_.size(); ++i) {
    if (i > 0) level = halved(level);
    const Tensor difference = level - levels_[i].index_select(0, rows);
    const Tensor mean = difference.square().mean({1, 2, 3});
    sum = sum.defined() ? sum + mean : mean;
  }
  return sum;
}

namespace {

constexpr int64_t kLargest = 256;  // pixels a side
constexpr int64_t kAtOnce = 8;     // targets that the network sees at a time

// Values in [-1, 1] as a detector takes them.
Tensor shown(const Tensor& pictures) {
  const Tensor x = pictures * 127.5 + 127.5;
  const int64_t longer = std::max(x.size(2), x.size(3));
  if (longer <= kLargest) return x;
  return torch::adaptive_avg_pool2d(x,
                                    {x.size(2) * kLargest / longer, x.size(3) * kLargest / longer});
}

}  // namespace

FurtherLoss detector_loss(const std::shared_ptr<Detector>& detector, const Tensor& targets) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> parts;
  for (const Tensor& some : targets.split(kAtOnce))
    parts.push_back(detector->differentiable(shown(some)));
  const Tensor wanted = torch::cat(parts);
  const bool lpips = detector->has_lpips();
  const Tensor lengths = wanted.square().sum(1).clamp_min(1e-12);
  return [detector, wanted, lengths, lpips](const Tensor& pictures, const Tensor& rows) {
    const Tensor seen = detector->differentiable(shown(pictures));
    const Tensor distance = (seen - wanted.index_select(0, rows)).square().sum(1);
    return lpips ? distance : distance / lengths.index_select(0, rows);
  };
}

namespace {

// Karras et al. 2020a, app. D.
constexpr double kRampUp = 0.05;        // of the steps
constexpr double kRampDown = 0.25;      // of the steps
constexpr double kNoise = 0.05;         // of the deviation of latents
constexpr double kNoiseEnd = 0.75;      // of the steps
constexpr double kAllStarts = 0.25;     // of the steps, then each target's best start goes on alone
constexpr int64_t kDrawnTogether = 32;  // samples drawn at a time
// Of the pictures that are made at a time: autograd keeps all that the network computed for them.
constexpr int64_t kGroupPixels = 1 << 20;
constexpr int64_t kMostGroup = 32;  // pictures

}  // namespace

Projector::Projector(const LatentSpace& space,
                     const Tensor& targets,
                     const ProjectorOptions& options)
    : space_(space), options_(options), targets_(targets.size(0)), loss_(targets) {
  options_.tried = std::min(options_.tried, space.samples().size(0));
  options_.starts = std::clamp<int64_t>(options_.starts, 1, options_.tried);
  const int64_t pixels = targets.size(2) * targets.size(3);
  if (options_.group <= 0)
    options_.group = std::clamp<int64_t>(kGroupPixels / pixels, 1, kMostGroup);
  rows_ = torch::arange(targets_).to(targets.device()).repeat_interleave(options_.starts);
}

Tensor Projector::losses(const Tensor& pictures, const Tensor& rows) const {
  const Tensor loss = loss_(pictures, rows);
  return further_ ? loss + further_(pictures, rows) : loss;
}

void Projector::begin() {
  const torch::NoGradGuard no_grad;
  const at::Device device = rows_.device();
  std::vector<Tensor> parts;  // [targets, samples of a batch]
  for (int64_t first = 0; first < options_.tried; first += kDrawnTogether) {
    const int64_t count = std::min(kDrawnTogether, options_.tried - first);
    const Tensor numbers = torch::arange(first, first + count, at::kLong);
    const Tensor latents = space_.unfolded(space_.samples().narrow(0, first, count));
    const Tensor made =
        space_.pictures(latents.to(device), space_.labels_of(numbers), /*gradients=*/false);
    std::vector<Tensor> of_targets;
    for (int64_t n = 0; n < targets_; ++n) {
      const Tensor row = torch::full({count}, n, rows_.options());
      of_targets.push_back(losses(made, row).cpu());
    }
    parts.push_back(torch::stack(of_targets));
  }
  const Tensor loss = torch::cat(parts, 1);
  const auto [least, best] = loss.topk(options_.starts, 1, /*largest=*/false);
  const Tensor chosen = best.flatten();
  latents_ = space_.unfolded(space_.samples().index_select(0, chosen)).to(device);
  labels_ = space_.labels_of(chosen.to(device));
  last_loss_ = least.flatten().to(device);
  first_ = torch::zeros_like(latents_);
  second_ = torch::zeros_like(latents_);
}

Projector::Rate Projector::rate_now() const {
  const double t = static_cast<double>(done_) / static_cast<double>(options_.steps);
  const double down = std::min(1.0, (1 - t) / kRampDown);
  const double smooth = 0.5 - 0.5 * std::cos(down * std::numbers::pi);
  const double left = std::max(0.0, 1 - t / kNoiseEnd);
  return {.lr = options_.lr * smooth * std::min(1.0, t / kRampUp),
          .noise = kNoise * space_.deviation() * left * left};
}

Tensor Projector::noise_of_step() const {
  const Stream stream(options_.seed, "project/noise", static_cast<uint64_t>(done_));
  const at::IntArrayRef shape = latents_.sizes().slice(1);
  return normal(stream, {0, 1, latents_.size(0)}, shape).to(latents_.device());
}

void Projector::for_groups(int64_t count, const std::function<void(int64_t, int64_t)>& work) const {
  for (int64_t first = 0; first < count; first += options_.group)
    work(first, std::min(options_.group, count - first));
}

Projector::Descent Projector::descent(const Tensor& noise, int64_t first, int64_t count) const {
  const torch::AutoGradMode gradients(true);
  const Tensor sought = latents_.detach().narrow(0, first, count).clone().requires_grad_();
  const Tensor noisy = noise.defined() ? sought + noise.narrow(0, first, count) : sought;
  const Tensor labels = labels_.defined() ? labels_.narrow(0, first, count) : labels_;
  const Tensor loss =
      losses(space_.pictures(noisy, labels, /*gradients=*/true), rows_.narrow(0, first, count));
  const Tensor gradient = torch::autograd::grad({loss.sum()}, {sought})[0];
  return {loss.detach(), gradient};
}

void Projector::step() {
  if (done_ == static_cast<int64_t>(kAllStarts * static_cast<double>(options_.steps)))
    keep_best_starts();
  const Rate rate = rate_now();
  const torch::NoGradGuard no_grad;
  const Tensor noise = rate.noise > 0 ? rate.noise * noise_of_step() : Tensor();
  std::vector<Tensor> loss, gradient;
  for_groups(latents_.size(0), [&](int64_t first, int64_t count) {
    Descent some = descent(noise, first, count);
    loss.push_back(std::move(some.loss));
    gradient.push_back(std::move(some.gradient));
  });
  last_loss_ = torch::cat(loss);
  std::vector<Tensor> parameters = {latents_}, firsts = {first_}, seconds = {second_};
  std::vector<Tensor> steps = {torch::full(
      {}, static_cast<double>(done_), at::TensorOptions(latents_.device()).dtype(at::kFloat))};
  adam_step_(parameters,
             {torch::cat(gradient).contiguous()},
             firsts,
             seconds,
             steps,
             {.lr = rate.lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8});
  if (is_frame()) {
    const Tensor frame = latents().cpu().unsqueeze(0);
    way_ = way_.defined() ? torch::cat({way_, frame}) : frame;
  }
  ++done_;
}

bool Projector::is_frame() const {
  const int64_t every = (options_.steps + options_.frames - 1) / options_.frames;
  return done_ % every == 0 || done_ + 1 == options_.steps;
}

Tensor Projector::best_rows() const {
  const int64_t starts = latents_.size(0) / targets_;
  const Tensor best = last_loss_.view({targets_, starts}).argmin(1);
  return torch::arange(targets_, rows_.options()) * starts + best;
}

void Projector::keep_best_starts() {
  const Tensor best = best_rows();
  for (Tensor* tensor : {&latents_, &rows_, &last_loss_, &first_, &second_})
    *tensor = tensor->index_select(0, best);
  if (labels_.defined()) labels_ = labels_.index_select(0, best);
}

Tensor Projector::latents() const { return latents_.index_select(0, best_rows()); }

Tensor Projector::labels() const {
  return labels_.defined() ? labels_.index_select(0, best_rows()) : labels_;
}

Tensor Projector::pictures(const Tensor& latents) const {
  const Tensor classes = labels();
  std::vector<Tensor> parts;
  for_groups(latents.size(0), [&](int64_t first, int64_t count) {
    const Tensor some = latents.narrow(0, first, count).to(rows_.device());
    const Tensor labels = classes.defined() ? classes.narrow(0, first, count) : classes;
    parts.push_back(space_.pictures(some, labels, /*gradients=*/false));
  });
  return torch::cat(parts);
}

NamedTensors Projector::state() const {
  NamedTensors all = {{"latents", latents_},
                      {"rows", rows_},
                      {"loss", last_loss_},
                      {"first_moment", first_},
                      {"second_moment", second_},
                      {"done", torch::tensor({done_}, at::kLong)}};
  if (labels_.defined()) all.emplace_back("labels", labels_);
  if (way_.defined()) all.emplace_back("way", way_);
  return all;
}

void Projector::load_state(const std::map<std::string, Tensor>& state) {
  const auto get = [&](const std::string& name, Tensor& tensor) {
    if (const auto at = state.find(name); at != state.end()) tensor = at->second.to(rows_.device());
  };
  done_ = state.at("done").item<int64_t>();
  get("latents", latents_);
  get("loss", last_loss_);
  get("first_moment", first_);
  get("second_moment", second_);
  get("labels", labels_);
  get("rows", rows_);
  if (const auto at = state.find("way"); at != state.end()) way_ = at->second;
}

}  // namespace gantrain
