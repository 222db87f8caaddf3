// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "page/run_record.h"

namespace gantrain {

// The course of a finetuning: what its measurements ask for.

struct CourseLimits {
  double worse = 0.1;              // a value is worse than the best by more than this share of it
  int64_t times = 4;               // measurements in a row that are: quality has fallen for long
  int64_t times_without_best = 8;  // measurements since the best: nothing improves
  // Since the best, before either is said: measurements that are close together differ by noise.
  double kimg = 8;
  int64_t returns = 2;  // at most, to the best state
};
inline constexpr CourseLimits kCourseLimits;

enum class Turn { kGoOn, kGoBack, kEnd };
constexpr std::array<std::string_view, 3> names(Turn) { return {"go on", "go back", "end"}; }

struct CourseView {
  Turn turn = Turn::kGoOn;
  std::string why;
  double best_kimg = 0;  // where the best value was measured; 0 where there is none
};

// What to do after these measurements of the metric, of which the later ones belong to what came
// after the last return. `returned`: how often there was one.
CourseView view_course(const Curve& curve, const std::string& metric, int64_t returned);

// What to do where pictures have collapsed or the training diverged, with the reason.
CourseView view_failure(const Curve& curve,
                        const std::string& metric,
                        int64_t returned,
                        const std::string& reason);

}  // namespace gantrain
