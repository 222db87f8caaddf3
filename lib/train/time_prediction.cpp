// SPDX-License-Identifier: Apache-2.0
#include "train/time_prediction.h"

#include "util/time.h"

namespace gantrain {

std::optional<double> TimePrediction::after_iteration() {
  constexpr int64_t kWarmUp = 1, kMeasured = 3;
  iterations_ += 1;
  if (iterations_ == kWarmUp) warm_at_ = monotonic_seconds();
  if (iterations_ != kWarmUp + kMeasured) return std::nullopt;
  return (monotonic_seconds() - warm_at_) / kMeasured;
}

}  // namespace gantrain
