// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "metrics/measure.h"

namespace gantrain {

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
