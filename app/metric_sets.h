// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/group.h"
#include "metrics/metric.h"
#include "metrics_request.h"

namespace gantrain {

// A model file that is measured.
struct MeasuredModel {
  std::filesystem::path file;
  std::string run;      // its run folder, or "" where a file was given
  int64_t images = -1;  // images seen in training, as its name tells; -1: it does not
};

// The models that the request is about: one file, or the newest or all models of a run.
std::vector<MeasuredModel> measured_models(const MetricsRequest& request);

// What is between pieces of work.
using Between = std::function<void(const MetricProgress&)>;

// Measure a model, and two sets of pictures. Collective. Throw UserError that names what does not
// fit.
std::vector<MetricResult> measure_model(const MetricsRequest& request,
                                        const MeasuredModel& model,
                                        Group& group,
                                        const Between& between);
std::vector<MetricResult> measure_images(const MetricsRequest& request,
                                         Group& group,
                                         const Between& between);

// Measures two files of features, and class probabilities, on this process alone. Throws
// UserError(kInput) that names the file.
std::vector<MetricResult> measure_features(const MetricsRequest& request);

}  // namespace gantrain
