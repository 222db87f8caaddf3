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

#include "config/value.h"
#include "data/pictures/dataset.h"
#include "distributed/group.h"
#include "gan/generator.h"
#include "gan/recipe.h"
#include "metrics/detector.h"
#include "metrics/measure.h"
#include "train/options.h"
#include "train/plan/plan.h"
#include "train/run/reporter.h"
#include "train/save/run_folder.h"

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

  // Throws what measure() would throw late, where a metric lacks pictures or the detector cannot do
  // it: see check_input(). Not collective.
  void check(const std::vector<std::string>& names);

  // Returns the results in the order of the names, or nothing where a rank wants to stop. Pictures
  // of an early stage are enlarged to the full size, each pixel to a square. Collective: all ranks
  // get the same.
  std::optional<std::vector<MetricResult>> measure(const std::vector<std::string>& names,
                                                   const SynthesisOptions& drawn = {});

  const Detector* detector() const { return detector_.get(); }  // null without one
  // EfficientNet-Lite0, which is loaded for the first metric that needs it; null without one.
  FeatureNetwork* lite0(const std::vector<std::string>& names);

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
  std::unique_ptr<Lite0Features> lite0_;  // loaded for the first metric that needs it
};

// Returns the mean distance of each picture to the one that is nearest to it, as the root of the
// mean square over its numbers. `pictures` is [N, ...] of floating point, N at least 2.
double nearest_distance(const at::Tensor& pictures);

// Measures how distinct generated pictures are: the mean distance of each of 64 pictures to the one
// nearest to it, divided by that of 64 real pictures; both are first reduced to at most 32 pixels a
// side by averages. A generator that ignores z, or knows a handful of pictures, is near 0, however
// different those few are. With a network, its features of these pictures are compared, too, and
// the smaller share counts: shifted or recoloured copies of one picture differ in their pixels
// alone. Healthy training was above 0.25 from 2 kimg on (dcgan-tiny, stylegan2-tiny); networks that
// have just begun may be near 0. Pictures of a conditional generator come in pairs of a class, so
// that labels alone do not make them distinct.
class Distinctness {
 public:
  static constexpr int64_t kPictures = 64;
  // Of real pictures. A generator that knows N of them by heart, as it may, shows each of 64 only
  // once with (1 - 1/N)^63, which is 0.53 for 100, where the alarm begins below 0.25 at most. Of
  // fewer it shows many twice, as it does in pairs of a class with few pictures.
  static constexpr int64_t kLeastReals = 100;
  static constexpr int64_t kLeastOfClass = 16;

  // The data is looked at once, at the first measurement. `network` is borrowed; null: pixels alone
  // are compared.
  Distinctness(Group& group, EvaluationSubject subject, FeatureNetwork* network = nullptr);

  // Whether the data has kLeastReals pictures, and kLeastOfClass for each class of the generator in
  // the mean. The same on all ranks.
  bool is_measurable() const;

  // Collective: the ranks share the work and get the same number. It is NaN where is_measurable()
  // is false, or all of the data's pictures are alike. It uses evaluation mode and latents of its
  // own, which stay the same all through the run.
  double measure(const SynthesisOptions& options);

 private:
  // Mean distances to the nearest picture.
  struct Spread {
    double pixels = 0;
    double features = 0;  // 0 without a network
  };
  at::Tensor made(const SynthesisOptions& options);
  Spread spread_of(const at::Tensor& pictures) const;
  Spread spread_of_reals() const;

  Group& group_;
  EvaluationSubject subject_;
  FeatureNetwork* network_;
  std::optional<Spread> of_reals_;  // on rank 0; none before the first measurement
};

// Decides when pictures have collapsed: where they were less distinct than limit() for so many
// measurements in a row, none of them before CollapseOptions::after.
class CollapseAlarm {
 public:
  explicit CollapseAlarm(const CollapseOptions& options) : options_(options) {}

  // Takes the next measurement. Returns whether the alarm begins with it.
  bool begins_with(double distinctness, int64_t images_seen);
  bool is_on() const { return in_a_row_ >= options_.times; }
  // CollapseOptions::below, or higher where the run, since it was started or resumed, was more
  // distinct (page/rules.h).
  double limit() const { return limit_; }

 private:
  CollapseOptions options_;
  double highest_ = 0;
  double limit_ = options_.below;
  int64_t in_a_row_ = 0;
};

// What best.json says of model-best.safetensors.
struct BestModel {
  std::string metric;  // "fid"
  double value = 0;
  double kimg = 0;
  Json recipe;  // what the value depends on beside the model: see MetricResult
};

// Keeps the best model of a run, by one metric, as model-best.safetensors with best.json in the run
// folder. It is used on rank 0 alone.
class KeepBest {
 public:
  static constexpr const char* kModel = kBestModel;
  static constexpr const char* kRecord = "best.json";

  // Goes on from the folder's best.json, unless that is broken, about another model than the file
  // (as its "gantrain.kimg" tells), of another metric, or of more than `images_seen` images, which
  // a resume from an earlier state leaves behind: then the files are renamed to superseded-*, with
  // a message. Throws UserError(kUsage) for a name that is no metric.
  KeepBest(std::filesystem::path folder, const std::string& metric, int64_t images_seen);

  // Writes the model of now to a path, at once or in the background, and then calls `afterwards`.
  using SaveModel =
      std::function<void(const std::filesystem::path& path, std::function<void()> afterwards)>;
  // One line of metric-NAME.jsonl, of the model as it is now.
  // Values of another recipe are not compared: the best then begins anew, with a message. Numbers
  // that are not finite are no candidates. Returns whether the model was kept.
  bool offer(const Json& line, int64_t images_seen, const SaveModel& save);

  // Whether such a line is better than the best, or the first: its model is not the one kept.
  bool lacks(const Json& line) const;

  // How many images the model that best.json is about has seen; -1 where there is none.
  static int64_t images_in(const std::filesystem::path& folder);

  const std::optional<BestModel>& best() const { return best_; }

 private:
  void forget(const std::string& why);
  std::optional<double> value_of(const Json& line) const;
  bool is_better(double value) const;

  std::filesystem::path folder_;
  std::string metric_;
  std::optional<BestModel> best_;
};

// The metrics of a run: when they are due, what becomes of the results, the best model, and the
// alarm when pictures collapse. All ranks make the same calls; rank 0 writes the files.
class RunMetrics {
 public:
  // What all of it is computed with; the group outlives this object.
  struct Site {
    Group& group;
    at::Device device;
    // Calls that every rank makes while rank 0 alone writes, or while it computes.
    std::function<void(const std::string&)> phase;
    std::function<bool()> wants_stop;
    bool adapts = false;  // metrics.every is a preset's number, not the user's: see MetricCadence
  };

  // Loads the detector, if one is named. Throws UserError(kInput) that names its file where this is
  // no detector, or cannot do what a metric asks of it, and where a metric lacks pictures.
  RunMetrics(Site site,
             const EvaluationSubject& subject,
             const MetricsOptions& metrics,
             const SaveOptions& save,
             Kimg run);

  // Finds the best model so far, in the run's folder, on rank 0, and `says` what is measured and
  // when.
  void open(const std::filesystem::path& folder, const Counters& counters, bool says = true);

  // Returns whether a measurement is due between two counts of images; the same on all ranks, rank
  // 0's clock decides. Says once where measurements are put off because they cost too much.
  bool is_due(int64_t before, const Counters& counters);

  // Whether to measure before the first iteration of a session: as the run begins, if that is
  // wanted, and where the session before was ended without the measurement that was due last, or
  // without the best model that it found; the same on all ranks. `folder`: of the run, on rank 0.
  bool owes(const std::filesystem::path& folder, const Counters& counters);

  // The model that is measured, as it is now.
  struct Subject {
    std::string snapshot;      // its file's name in the run's folder
    KeepBest::SaveModel save;  // writes it to another file
    SynthesisOptions drawn;    // how its pictures are made
  };
  // Measures, writes the results as messages and files, and keeps the best model. Where a rank
  // wants to stop, a message says so instead, and it returns false. Adds the time to the counters.
  bool measure(Reporter& reporter, const Subject& subject, Counters& counters);

  // At a tick: measures how distinct pictures are, if that is wanted, and warns where they have
  // collapsed. Adds the time to the counters. Where metrics are to keep to their share of the time,
  // so does this, unless the run is to end by it.
  void watch_collapse(Reporter& reporter, const SynthesisOptions& drawn, Counters& counters);
  // Why the run is to end, where metrics.stop_on asks for it and the alarm is on; "" elsewhere. The
  // same on all ranks.
  std::string collapse() const;

  const Detector* detector() const { return evaluation_.detector(); }  // null without one
  // Returns {"file": ..., "sha256": ...} of the detector. There must be one.
  Json describe_detector() const;

 private:
  bool affords(const MetricTimes& times);
  void keep(Reporter& reporter,
            const std::vector<MetricResult>& results,
            const Subject& subject,
            const Counters& counters);

  Site site_;
  std::vector<std::string> names_;
  MetricsOptions options_;
  std::string keep_best_;
  MetricCadence cadence_;
  Evaluation evaluation_;
  Distinctness distinctness_;
  CollapseAlarm alarm_;
  double distinct_ = 1;           // the last measurement
  double distinct_seconds_ = 0;   // that it took
  std::optional<KeepBest> best_;  // on rank 0, if one is kept
  bool put_off_ = false;          // the last chance of a measurement was
};

}  // namespace gantrain
