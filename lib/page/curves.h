// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "page/run_log.h"

namespace gantrain {

// A curve of a chart with a sentence that says how to read the curve.
struct ExplainedCurve {
  std::string name;
  std::string meaning;
  Curve curve;
};

// A chart; `bookkeeping` ones are folded: traffic, loss scales, times, memory.
struct Chart {
  std::string title;
  std::vector<ExplainedCurve> curves;
  bool bookkeeping = false;
};

// Sorts curves into charts: curves that share a scale go together, the best-known charts come
// first, and each unknown name gets a chart of its own at the end. Comm/*, AMP/*, Timing/*,
// Resources/* and Gradients/* are bookkeeping.
std::vector<Chart> charts_of(const std::map<std::string, Curve>& curves);

}  // namespace gantrain
