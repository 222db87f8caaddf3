// SPDX-License-Identifier: Apache-2.0
#include "bench_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "util/sample.h"
#include "util/time.h"

namespace gantrain {

Json spread_of(const std::vector<double>& values) {
  return {{"median", median(values)},
          {"quartiles", {quantile(values, 0.25), quantile(values, 0.75)}}};
}

Json ratio_of(const std::vector<double>& ratios) {
  const Interval ratio = mean_ratio(ratios);
  Json json = {{"ratio", ratio.middle}};
  if (ratios.size() > 1) json["interval"] = {ratio.low, ratio.high};
  return json;
}

std::vector<double> quotients(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) all.push_back(a[i] / b[i]);
  return all;
}

std::string ratio_text(const Json& ratio) {
  const auto middle = ratio.at("ratio").get<double>();
  if (!ratio.contains("interval")) return fmt::format("{:.3f}", middle);
  const Json& interval = ratio.at("interval");
  return fmt::format(
      "{:.3f} ({:.3f} .. {:.3f})", middle, interval[0].get<double>(), interval[1].get<double>());
}

double seconds_of(const std::function<void()>& work) {
  const double start = monotonic_seconds();
  work();
  return monotonic_seconds() - start;
}

void in_turns(int64_t rounds, const std::vector<std::function<void()>>& measurements) {
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < measurements.size(); ++i)
      measurements[round % 2 == 0 ? i : measurements.size() - 1 - i]();
  }
}

double load_average() {
  double value = 0;
  std::ifstream("/proc/loadavg") >> value;
  return value;
}

}  // namespace gantrain
