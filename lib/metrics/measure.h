// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/value.h"
#include "metrics/metric_table.h"
#include "metrics/pictures.h"

namespace gantrain {

class Detector;
class FeatureNetwork;
class Group;

// What metrics are computed from. All members are borrowed for the time of the call.
struct MetricInput {
  Group& group;                       // its ranks compute together
  at::Device device = at::kCPU;       // of the group's tensors; features are computed there
  Pictures* reals = nullptr;          // null: metrics that need them are refused
  Pictures* fakes = nullptr;          // never null
  GeneratedPictures* made = nullptr;  // the fakes, if a generator makes them: for path lengths
  Detector* detector = nullptr;       // null: metrics that need its features are refused
  FeatureNetwork* lite0 = nullptr;    // EfficientNet-Lite0; null: likewise
  bool shapes = false;                // the reals are synth:shapes
  bool attributes = false;            // they are synth:shapes-attributes
  int64_t images = 1024;              // fakes, at most as many as there are
  int64_t real_images = 0;  // reals of metrics of features: 0 for as many as `images`, -1: all
  uint64_t seed = 0;        // of subsets, patches and directions that are drawn
  // Also for each class that reals and fakes have, as "fid/circle"; of labels that are vectors, for
  // those of their numbers that are 0 or 1 in every picture.
  bool per_class = false;
  std::filesystem::path cache;  // folder for statistics of the reals; empty: none are kept
  // Called between pieces of work of about a second, on all ranks equally often and outside of any
  // other collective: it may call the group, for example to agree on a stop. What it throws ends
  // the computation; it must then throw on all ranks at the same call.
  std::function<void(const MetricProgress&)> between = [](const MetricProgress&) {};
};

// One line of metric-NAME.jsonl and of `gantrain metrics --json`.
struct MetricResult {
  std::string metric;  // "fid"
  Json results;        // {"fid": 12.3}; a number that is not finite is null
  Json recipe;         // what it depends on: detector, numbers of pictures, filter, seed, ...
  double seconds = 0;
};

// Refuses what measure() would refuse late: metrics that lack what they need, too few pictures, and
// a detector that cannot do what a metric asks of it, which is shown one picture. Takes about the
// time of one picture and is not collective; all ranks come to the same answer. Throws UserError as
// measure() does.
void check_input(const std::vector<std::string>& names, const MetricInput& input);

// Computes the metrics, in the order of the names. Collective: all ranks call it with the same
// arguments, share the work, and get the same results. Pictures are made and features computed in
// batches whose borders do not depend on the number of ranks. Throws UserError(kUsage) as
// check_metrics() does, and UserError(kInput) for pictures that do not fit each other or the metric
// (too few, too small).
std::vector<MetricResult> measure(const std::vector<std::string>& names, const MetricInput& input);

// Returns the line: {"metric": "fid", "results": {...}, "recipe": {...}, "total_time": seconds}.
Json to_json(const MetricResult& result);

// Features of reals and of fakes that another program computed, in files.
struct FeatureFiles {
  std::string reals, fakes;        // .npy, [N, F]
  std::string probabilities;       // .npy, [N, C]: class probabilities of the fakes, or ""
  std::vector<std::string> names;  // of metrics; empty: those that the files allow
  int64_t seed = 0;
};

// Measures them on this process alone. Throws UserError(kInput) that names the file.
std::vector<MetricResult> measure_features(const FeatureFiles& files);

}  // namespace gantrain
