// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"
#include "train/plan/plan.h"
#include "train/run/evaluate.h"
#include "train/run/reporter.h"

namespace gantrain {

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
  static constexpr const char* kModel = "model-best.safetensors";
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

  const std::optional<BestModel>& best() const { return best_; }

 private:
  void forget(const std::string& why);
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

  // Says what is measured and when, and finds the best model so far, in the run's folder, on rank
  // 0.
  void open(const std::filesystem::path& folder, const Counters& counters);

  // Returns whether a measurement is due between two counts of images; the same on all ranks, rank
  // 0's clock decides. Says once where measurements are put off because they cost too much.
  bool is_due(int64_t before, const Counters& counters);

  // The model that is measured, as it is now.
  struct Subject {
    std::string snapshot;      // its file's name in the run's folder
    KeepBest::SaveModel save;  // writes it to another file
    SynthesisOptions drawn;    // how its pictures are made
  };
  // Measures, writes the results as messages and files, and keeps the best model. Where a rank
  // wants to stop, a message says so instead. Adds the time to the counters.
  void measure(Reporter& reporter, const Subject& subject, Counters& counters);

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
