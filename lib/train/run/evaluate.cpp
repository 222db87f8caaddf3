// SPDX-License-Identifier: Apache-2.0
#include "train/run/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/tensors.h"
#include "core/torch.h"
#include "data/load/loader.h"
#include "report/grid.h"
#include "train/run/classes.h"
#include "util/error.h"

namespace gantrain {

namespace {

struct GivenUp {};  // thrown on all ranks together, in the middle of metrics

// Without mirroring, as the published metrics have it.
DatasetPictures::Options options_of_reals(const EvaluationSubject& subject) {
  DatasetPictures::Options reals;
  reals.data = subject.data;
  reals.seed = subject.seed;
  return reals;
}

// The labels of generated pictures are in the proportion of the data's.
GeneratedPictures::Options options_of_fakes(const EvaluationSubject& subject,
                                            const MetricsOptions& options,
                                            const SynthesisOptions& synthesis) {
  GeneratedPictures::Options fakes;
  fakes.size = options.images;
  fakes.seed = subject.seed;
  fakes.synthesis = synthesis;
  if (subject.generator.classes() == 0) return fakes;
  for (const ClassRow& row : class_table_of(*subject.dataset)) {
    fakes.class_weights.push_back(row.pictures);
    fakes.class_names.push_back(row.name);
  }
  return fakes;
}

// Reduces uint8 or float pictures [N, C, H, W] to at most 32 pixels a side, as float32 in 0..255.
at::Tensor reduced(const at::Tensor& pictures) {
  constexpr int64_t kSide = 32;
  const int64_t height = pictures.size(2), width = pictures.size(3);
  const int64_t factor = (std::max(height, width) + kSide - 1) / kSide;
  const at::Tensor numbers = pictures.to(at::kFloat);
  if (factor <= 1) return numbers;
  return at::adaptive_avg_pool2d(
      numbers, {std::max<int64_t>(height / factor, 1), std::max<int64_t>(width / factor, 1)});
}

}  // namespace

Evaluation::Evaluation(Group& group,
                       at::Device device,
                       EvaluationSubject subject,
                       const MetricsOptions& options,
                       WantsStop wants_stop)
    : group_(group),
      device_(device),
      subject_(std::move(subject)),
      options_(options),
      wants_stop_(std::move(wants_stop)),
      reals_(subject_.dataset, options_of_reals(subject_)) {
  if (!options_.detector.empty())
    detector_ = std::make_unique<Detector>(options_.detector, device_);
}

bool Evaluation::any_rank_wants_to_stop(bool this_one_does) const {
  const bool wish = wants_stop_() || this_one_does;
  at::Tensor wishes = torch::full({1}, wish ? 1.0F : 0.0F, at::TensorOptions(device_of(group_)));
  group_.sum_(wishes);
  return wishes.cpu().item<float>() > 0;
}

std::optional<std::vector<MetricResult>> Evaluation::measure(
    const std::vector<std::string>& names) {
  if (names.empty()) return std::vector<MetricResult>{};
  if (detector_ && !subject_.cache.empty() && !find_identity()) return std::nullopt;
  GeneratedPictures fakes(subject_.generator,
                          options_of_fakes(subject_, options_, synthesis_options_));
  MetricInput input = input_of(fakes);
  input.between = [this](const MetricProgress&) {
    if (any_rank_wants_to_stop()) throw GivenUp();
  };
  try {
    return gantrain::measure(names, input);
  } catch (const GivenUp&) {
    return std::nullopt;
  }
}

void Evaluation::check(const std::vector<std::string>& names) {
  GeneratedPictures fakes(subject_.generator,
                          options_of_fakes(subject_, options_, synthesis_options_));
  check_input(names, input_of(fakes));
}

// The first time this reads the data, for longer than a collective may wait, with signs of life.
// Returns false where a rank wants to stop.
bool Evaluation::find_identity() {
  bool stopped = false;  // rank 0, on the way
  const auto hash = [&] {
    try {
      reals_.identity([&] { return stopped = wants_stop_(); });
    } catch (const UserError&) {
      if (!stopped) throw;
    }
  };
  group_.on_rank_0(hash, [this] { wants_stop_(); });
  return !any_rank_wants_to_stop(stopped);
}

MetricInput Evaluation::input_of(GeneratedPictures& fakes) {
  MetricInput input{.group = group_, .device = device_};
  input.reals = &reals_;
  input.fakes = &fakes;
  input.made = &fakes;
  input.detector = detector_.get();
  input.shapes = subject_.data.path == "synth:shapes";
  input.images = options_.images;
  input.seed = subject_.seed;
  input.cache = subject_.cache;
  return input;
}

double nearest_distance(const at::Tensor& pictures) {
  const at::Tensor flat = pictures.flatten(1).to(at::kDouble);
  at::Tensor distances = at::cdist(flat, flat, 2, /*compute_mode=*/2);
  distances.fill_diagonal_(std::numeric_limits<double>::infinity());
  const double root = std::sqrt(static_cast<double>(flat.size(1)));
  return distances.amin(1).mean().item<double>() / root;
}

Distinctness::Distinctness(Group& group,
                           Generator& generator,
                           std::shared_ptr<const Dataset> reals,
                           uint64_t seed)
    : group_(group), generator_(generator), reals_(std::move(reals)), seed_(seed) {}

// This rank's share, each picture in its place; zeros in the others' places.
at::Tensor Distinctness::made(const SynthesisOptions& options) {
  constexpr int64_t kAtATime = 16;
  const Stream stream(seed_, "collapse");
  const int64_t batches = kPictures / kAtATime;
  at::Tensor all;
  // A rank beyond the number of batches makes one for its shape.
  for (int64_t batch = group_.rank() % batches; batch < batches; batch += group_.world()) {
    const int64_t first = batch * kAtATime;
    const at::Tensor z = normal(stream, {first, 1, kAtATime}, {generator_.z_dim()});
    at::Tensor labels;
    if (generator_.classes() > 0) {
      const at::Tensor pairs = torch::arange(first, first + kAtATime).floor_divide(2);
      labels = pairs.mul(generator_.classes()).floor_divide(kPictures / 2);
    }
    const at::Tensor small = reduced(to_bytes(generator_.images(z, labels, options)));
    if (!all.defined())
      all = torch::zeros({kPictures, small.size(1), small.size(2), small.size(3)});
    if (group_.rank() < batches) all.narrow(0, first, kAtATime).copy_(small);
  }
  return all;
}

double Distinctness::of_reals() const {
  const int64_t count = std::min(kPictures, reals_->size());
  if (count < 2) return 0;
  const std::vector<int64_t> order = Stream(seed_, "reals").permutation(reals_->size());
  std::vector<WantedPicture> wanted;
  for (int64_t i = 0; i < count; ++i) wanted.push_back({order[static_cast<size_t>(i)]});
  return nearest_distance(reduced(load_planes(*reals_, wanted)));
}

bool Distinctness::is_measurable() const {
  return reals_->size() >= std::max(kLeastReals, kLeastOfClass * generator_.classes());
}

double Distinctness::measure(const SynthesisOptions& options) {
  if (!is_measurable()) return std::nan("");
  const torch::NoGradGuard no_grad;
  if (of_reals_ < 0) {  // outside of a collective, whose timeout a slow disk could exceed
    of_reals_ = 0;
    group_.on_rank_0([this] { of_reals_ = of_reals(); }, [] {});
  }
  at::Tensor fakes = made(options).to(device_of(group_));
  group_.sum_(fakes);
  at::Tensor ratio = torch::zeros({1}, at::kDouble);
  if (group_.rank() == 0)
    ratio.fill_(of_reals_ > 0 ? nearest_distance(fakes.cpu()) / of_reals_ : std::nan(""));
  ratio = ratio.to(device_of(group_));
  group_.broadcast_(ratio);
  return ratio.cpu().item<double>();
}

bool CollapseAlarm::begins_with(double distinctness, int64_t images_seen) {
  const bool low = distinctness < options_.below && images_seen >= options_.after.images;
  in_a_row_ = low ? in_a_row_ + 1 : 0;
  return in_a_row_ == options_.times;
}

}  // namespace gantrain
