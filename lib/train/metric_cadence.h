// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "util/field.h"

namespace gantrain {

// Seconds of a run so far, over all of its sessions.
struct MetricTimes {
  double run = 0;      // all of it, metrics included
  double metrics = 0;  // of which metrics
  double last = 0;     // of the last measurement; 0 before the first
};

// When a run measures metrics: at each multiple of a given number of images, or, where none is
// given, up to 20 times in the run and at most once each 200 kimg, as often as all measurements
// together stay under 3 % of the run's time.
class MetricCadence {
 public:
  static constexpr double kLargestShare = 0.03;

  // `adapts`: a given number is the least there is between two measurements, and what they cost
  // counts too, as it does where none is given.
  MetricCadence(std::optional<Kimg> every, Kimg run, bool adapts = false);

  bool adapts() const { return adapts_; }     // to what measurements cost
  int64_t images() const { return images_; }  // between two chances of a measurement
  // Whether a measurement may be due between two counts of images seen: the same on all ranks.
  bool may_be_due(int64_t before, int64_t after) const {
    return after / images_ > before / images_;
  }
  // Whether what it costs, about as much as the last one, can be afforded now.
  bool affords(const MetricTimes& times) const;

 private:
  bool adapts_;
  int64_t images_;
};

// Returns the share of the run's time that metrics would have taken after one more measurement.
double share_after_one_more(const MetricTimes& times);

}  // namespace gantrain
