// SPDX-License-Identifier: Apache-2.0
#include "tune/course.h"

#include <algorithm>
#include <cmath>

#include "metrics/metric_table.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// The measurements from the best one on, the best first; empty where none is finite.
Curve since_best(const Curve& curve, bool lower) {
  Curve since;
  for (const auto& [kimg, value] : curve) {
    if (!std::isfinite(value)) continue;
    if (since.empty() || (lower ? value < since.front().second : value > since.front().second))
      since.clear();
    since.emplace_back(kimg, value);
  }
  return since;
}

bool is_worse(double value, double best, bool lower) {
  const double margin = kCourseLimits.worse * std::abs(best);
  return lower ? value > best + margin : value < best - margin;
}

Turn back_or_end(int64_t returned) {
  return returned < kCourseLimits.returns ? Turn::kGoBack : Turn::kEnd;
}

std::string best_text(const std::string& metric, const Curve& since) {
  return fmt::format("its best, {} {:.4g} at {} kimg",
                     metric,
                     since.front().second,
                     shortest(since.front().first));
}

}  // namespace

CourseView view_course(const Curve& curve, const std::string& metric, int64_t returned) {
  const bool lower = find_metric(metric).lower_is_better;
  const Curve since = since_best(curve, lower);
  CourseView view;
  if (since.empty()) return view;
  view.best_kimg = since.front().first;
  if (since.back().first - since.front().first < kCourseLimits.kimg) return view;
  const double best = since.front().second;
  const auto times = static_cast<size_t>(kCourseLimits.times);
  const bool falls =
      since.size() > times &&
      std::all_of(since.end() - kCourseLimits.times, since.end(), [&](const auto& point) {
        return is_worse(point.second, best, lower);
      });
  if (falls) {
    view.turn = back_or_end(returned);
    view.why = fmt::format(
        "{} {:.4g} at {} kimg: {} measurements in a row were more than {:.0f} % "
        "worse than {}",
        metric,
        since.back().second,
        shortest(since.back().first),
        times,
        100 * kCourseLimits.worse,
        best_text(metric, since));
  } else if (static_cast<int64_t>(since.size()) > kCourseLimits.times_without_best) {
    view.turn = Turn::kEnd;
    view.why = fmt::format("nothing better in {} after {}",
                           counted(kCourseLimits.times_without_best, "measurement"),
                           best_text(metric, since));
  }
  return view;
}

CourseView view_failure(const Curve& curve,
                        const std::string& metric,
                        int64_t returned,
                        const std::string& reason) {
  const Curve since = since_best(curve, find_metric(metric).lower_is_better);
  return {back_or_end(returned), reason, since.empty() ? 0 : since.front().first};
}

}  // namespace gantrain
