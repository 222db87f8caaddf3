// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "config/value.h"

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

}  // namespace gantrain
