// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/pictures/dataset.h"
#include "distributed/group.h"
#include "gan/generator.h"
#include "gan/recipe.h"
#include "metrics/detector.h"
#include "metrics/measure.h"
#include "train/options.h"

namespace gantrain {

// What an Evaluation measures. The generator is borrowed.
struct EvaluationSubject {
  Generator& generator;
  std::shared_ptr<const Dataset> dataset;
  DataOptions data;  // with which the data set was opened
  uint64_t seed = 0;
  std::filesystem::path cache;  // folder for features of the data; empty: they are not kept
};

// Measures pictures of the generator's average, all ranks of a run together. It has random streams
// of its own and uses evaluation mode, so that training is not affected.
class Evaluation {
 public:
  // Asked on every rank between pieces of work, about once a second; returns whether this rank
  // wants to stop. Where one does, all ranks give up.
  using WantsStop = std::function<bool()>;

  // Loads the detector of the options, if there is one, to `device`. Throws UserError(kInput) that
  // names its file where this is no detector.
  Evaluation(
      Group& group,
      at::Device device,
      EvaluationSubject subject,
      const MetricsOptions& options,
      WantsStop wants_stop = [] { return false; });

  // Sets how pictures are generated from now on. Pictures of an early stage are enlarged to the
  // full size, each pixel to a square.
  void draw(const SynthesisOptions& options) { synthesis_options_ = options; }
  const SynthesisOptions& drawn() const { return synthesis_options_; }

  // Throws what measure() would throw late, where a metric lacks pictures or the detector cannot do
  // it: see check_input(). Not collective.
  void check(const std::vector<std::string>& names);

  // Returns the results in the order of the names, or nothing where a rank wants to stop.
  // Collective: all ranks get the same.
  std::optional<std::vector<MetricResult>> measure(const std::vector<std::string>& names);

  const Detector* detector() const { return detector_.get(); }  // null without one

 private:
  bool any_rank_wants_to_stop(bool this_one_does = false) const;
  bool find_identity();
  MetricInput input_of(GeneratedPictures& fakes);

  Group& group_;
  at::Device device_;
  EvaluationSubject subject_;
  MetricsOptions options_;
  WantsStop wants_stop_;
  DatasetPictures reals_;  // its identity is found out once, by reading the data
  std::unique_ptr<Detector> detector_;
  SynthesisOptions synthesis_options_;
};

// Returns the mean distance of each picture to the one that is nearest to it, as the root of the
// mean square over its numbers. `pictures` is [N, ...] of floating point, N at least 2.
double nearest_distance(const at::Tensor& pictures);

// Measures how distinct generated pictures are: the mean distance of each of 64 pictures to the one
// nearest to it, divided by that of 64 real pictures; both are first reduced to at most 32 pixels a
// side by averages. A generator that ignores z, or knows a handful of pictures, is near 0, however
// different those few are. Healthy training was above 0.25 from 2 kimg on (dcgan-tiny,
// stylegan2-tiny); networks that have just begun may be near 0. Pictures of a conditional generator
// come in pairs of a class, so that labels alone do not make them distinct.
class Distinctness {
 public:
  static constexpr int64_t kPictures = 64;
  // Of real pictures. A generator that knows fewer of them by heart, as it may, shows many twice
  // among 64; so it does in pairs of a class with few pictures.
  static constexpr int64_t kLeastReals = 4 * kPictures;
  static constexpr int64_t kLeastOfClass = 16;

  // `reals` are looked at once, at the first measurement.
  Distinctness(Group& group,
               Generator& generator,
               std::shared_ptr<const Dataset> reals,
               uint64_t seed);

  // Whether the data has kLeastReals pictures, and kLeastOfClass for each class of the generator in
  // the mean. The same on all ranks.
  bool is_measurable() const;

  // Collective: the ranks share the work and get the same number. It is NaN where is_measurable()
  // is false, or all of the data's pictures are alike. It uses evaluation mode and latents of its
  // own, which stay the same all through the run.
  double measure(const SynthesisOptions& options);

 private:
  at::Tensor made(const SynthesisOptions& options);
  double of_reals() const;

  Group& group_;
  Generator& generator_;
  std::shared_ptr<const Dataset> reals_;
  uint64_t seed_;
  double of_reals_ = -1;  // on rank 0; -1 before the first measurement
};

// Decides when pictures have collapsed: where they were less distinct than CollapseOptions::below
// for so many measurements in a row, none of them before CollapseOptions::after.
class CollapseAlarm {
 public:
  explicit CollapseAlarm(const CollapseOptions& options) : options_(options) {}

  // Takes the next measurement. Returns whether the alarm begins with it.
  bool begins_with(double distinctness, int64_t images_seen);
  bool is_on() const { return in_a_row_ >= options_.times; }

 private:
  CollapseOptions options_;
  int64_t in_a_row_ = 0;
};

}  // namespace gantrain
