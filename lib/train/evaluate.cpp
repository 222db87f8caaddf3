// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include "core/torch.h"
#include "distributed/group_backend.h"
#include "train/classes.h"
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

}  // namespace gantrain
