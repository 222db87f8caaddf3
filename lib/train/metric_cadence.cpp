// SPDX-License-Identifier: Apache-2.0
#include "train/metric_cadence.h"

#include <algorithm>

namespace gantrain {

namespace {
constexpr int64_t kMostOften = 20;          // times in a run
constexpr int64_t kLongestPause = 200'000;  // images, where time allows
}  // namespace

MetricCadence::MetricCadence(std::optional<Kimg> every, Kimg run, bool adapts)
    : adapts_(adapts || !every),
      images_(every ? every->images
                    : std::clamp<int64_t>(run.images / kMostOften, 1, kLongestPause)) {}

double share_after_one_more(const MetricTimes& times) {
  const double run = times.run + times.last;
  return run > 0 ? (times.metrics + times.last) / run : 0;
}

bool MetricCadence::affords(const MetricTimes& times) const {
  return !adapts_ || share_after_one_more(times) < kLargestShare;
}

}  // namespace gantrain
