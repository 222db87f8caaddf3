// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace gantrain {

// What can be said of numbers that were measured several times. None of these may be empty.

// Returns the quantile q of the values, interpolated linearly: q = 0 is the smallest value, 1 the
// largest.
double quantile(std::vector<double> values, double q);
double median(const std::vector<double>& values);

struct Interval {
  double middle = 0;
  double low = 0;
  double high = 0;
};

// Returns the geometric mean of positive ratios and its 95 % confidence interval (Student's t of
// their logarithms). The interval of a single ratio is infinite.
Interval mean_ratio(const std::vector<double>& ratios);

}  // namespace gantrain
