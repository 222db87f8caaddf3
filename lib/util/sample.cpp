// SPDX-License-Identifier: Apache-2.0
#include "util/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace gantrain {

namespace {

// Student's t below which 97.5 % lie, for 1, 2, ... degrees of freedom.
double student_t(size_t freedom) {
  constexpr std::array<double, 30> kTable = {
      12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
      2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
      2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (freedom == 0) return std::numeric_limits<double>::infinity();
  return freedom <= kTable.size() ? kTable[freedom - 1] : 1.96 + 2.5 / static_cast<double>(freedom);
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  if (values.empty()) throw std::logic_error("a quantile of nothing");
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

Interval mean_ratio(const std::vector<double>& ratios) {
  if (ratios.empty()) throw std::logic_error("a mean of nothing");
  const auto n = static_cast<double>(ratios.size());
  double mean = 0;
  for (const double ratio : ratios) mean += std::log(ratio) / n;
  double square = 0;
  for (const double ratio : ratios) square += std::pow(std::log(ratio) - mean, 2);
  const double reach = ratios.size() == 1
                           ? std::numeric_limits<double>::infinity()
                           : student_t(ratios.size() - 1) * std::sqrt(square / (n - 1) / n);
  return {std::exp(mean), std::exp(mean - reach), std::exp(mean + reach)};
}

}  // namespace gantrain
