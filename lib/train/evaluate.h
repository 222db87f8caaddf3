// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "distributed/group.h"
#include "gan/recipe.h"
#include "metrics/detector.h"
#include "metrics/metric.h"
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

}  // namespace gantrain
