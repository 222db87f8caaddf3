// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "page/run_log.h"

namespace gantrain {

struct Line {
  std::string name;
  Curve curve;
};

// Values between which a curve is healthy; a dashed line where both are the same.
struct Band {
  double low = 0;
  double high = 0;
};

// What a chart shows beside its curves.
struct ChartMarks {
  std::vector<Band> bands;
  std::vector<double> resumes;  // kimg
};

// What a chart of a page may take: of very many curves each has fewer points.
inline constexpr size_t kMostPoints = 280;

// Returns one inline <svg> with axes from kimg 0 on, round numbers on them, and a line for each
// curve (CSS classes line0 to line7). Values that are not finite leave a gap. Long curves are
// thinned to `points` means. Bands are left out where they are so far from the curves that these
// would become flat. The attributes data-x and data-y hold the numbers at the ends of the axes, by
// which the page's script reads values from the paths.
std::string line_chart(const std::vector<Line>& lines,
                       const ChartMarks& marks = {},
                       size_t points = kMostPoints);

// Returns about `count` round axis marks (1, 2 or 5 times a power of ten) in [low, high].
std::vector<double> axis_marks(double low, double high, int count);

}  // namespace gantrain
