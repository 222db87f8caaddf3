// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/run_log.h"

namespace gantrain {

// Replaces &, <, >, " and ' by HTML entities.
std::string escape_html(std::string_view text);

struct Line {
  std::string name;
  Curve curve;
};

// Returns one inline <svg> with axes, round numbers on them, and a line for each curve (CSS classes
// line0, line1, ...). Values that are not finite leave a gap. Long curves are thinned to what can
// be seen.
std::string line_chart(const std::vector<Line>& lines);

// Returns about `count` round axis marks (1, 2 or 5 times a power of ten) in [low, high].
std::vector<double> axis_marks(double low, double high, int count);

}  // namespace gantrain
