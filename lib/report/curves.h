// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/run_log.h"

namespace gantrain {

// One curve of a chart with the sentence that says how to read it.
struct ExplainedCurve {
  std::string name;
  std::string meaning;
  Curve curve;
};

struct Chart {
  std::string title;
  std::vector<ExplainedCurve> curves;
};

// The curves sorted into charts: those that share a scale together, the best known first, unknown
// names last, one chart each.
std::vector<Chart> charts_of(const std::map<std::string, Curve>& curves);

}  // namespace gantrain
