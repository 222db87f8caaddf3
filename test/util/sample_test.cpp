// SPDX-License-Identifier: Apache-2.0
#include "util/sample.h"

#include <cmath>

#include "support/catch.h"

namespace gantrain {

TEST_CASE("QuantilesLieBetweenTheSortedValues") {
  const std::vector<double> values = {4, 1, 3, 2};
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 1) == 4);
  CHECK(median(values) == 2.5);
  CHECK(quantile(values, 0.25) == Approx(1.75));
  CHECK(median({7}) == 7);
  CHECK_THROWS_AS(median({}), std::logic_error);
}

// 5 numbers, 4 degrees of freedom: t = 2.776.
TEST_CASE("TheIntervalOfARatioIsStudents") {
  const std::vector<double> logs = {-0.2, -0.1, 0, 0.1, 0.2};
  std::vector<double> ratios;
  for (const double l : logs) ratios.push_back(2 * std::exp(l));
  const Interval interval = mean_ratio(ratios);
  CHECK(interval.middle == Approx(2));
  const double reach = 2.776 * std::sqrt(0.025 / 5);  // variance .1 / 4
  CHECK(interval.low == Approx(2 * std::exp(-reach)));
  CHECK(interval.high == Approx(2 * std::exp(reach)));
}

TEST_CASE("SlowerAndFasterByAsMuchAreEven") {
  const Interval interval = mean_ratio({0.5, 2});
  CHECK(interval.middle == Approx(1));
  CHECK(interval.low * interval.high == Approx(1));
}

TEST_CASE("OneRatioSaysNothingOfItsError") {
  const Interval interval = mean_ratio({1.5});
  CHECK(interval.middle == Approx(1.5));
  CHECK(interval.low == 0);
  CHECK(std::isinf(interval.high));
}

}  // namespace gantrain
