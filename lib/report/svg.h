// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/run_log.h"

namespace gantrain {

// &, <, >, " and ' as HTML entities.
std::string escape_html(std::string_view text);

struct Line {
  std::string name;
  Curve curve;
};

// One inline <svg> with axes, round numbers on them, and a line per curve (CSS classes line0,
// line1, ...). Values that are not finite leave a gap. Long curves are thinned to what can be seen.
std::string line_chart(const std::vector<Line>& lines);

// "Round" axis marks (1, 2 or 5 times a power of ten) that lie in [low, high], about `count`.
std::vector<double> axis_marks(double low, double high, int count);

}  // namespace gantrain
