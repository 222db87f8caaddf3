// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "page/run_record.h"

namespace gantrain {

// Lines of a chart, and the keys that name them, have so many colours (CSS classes line0 to line7).
inline constexpr size_t kColours = 8;

struct ExplainedCurve {
  std::string name;
  Curve curve;
  std::string meaning = {};  // a sentence that says how to read the curve
  std::string label = {};    // what the reader calls it; "": its name
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
std::string line_chart(const std::vector<ExplainedCurve>& lines,
                       const ChartMarks& marks = {},
                       size_t points = kMostPoints);

// Returns about `count` round axis marks (1, 2 or 5 times a power of ten) in [low, high].
std::vector<double> axis_marks(double low, double high, int count);

// A chart; `bookkeeping` ones are folded: traffic, loss scales, times, memory.
struct Chart {
  std::string title;
  std::vector<ExplainedCurve> curves;
  bool bookkeeping = false;
};

// Sorts curves into charts: curves that share a scale go together, the best-known charts come
// first, and each unknown name gets a chart of its own at the end. Comm/*, AMP/*, Timing/*,
// Resources/*, Gradients/* and Weights/* are bookkeeping.
std::vector<Chart> charts_of(const std::map<std::string, Curve>& curves);

// Where the curves of a chart are known to be in healthy training.
struct HealthyBand {
  Band band;
  std::string words;  // a sentence with the source
};

// Returns what is known for this run's chart: by its loss, its targets and its limits.
std::vector<HealthyBand> healthy_bands(const RunRecord& run, const Chart& chart);

// Returns charts as HTML, each by `figure_of`: quality, training and, folded, bookkeeping.
std::string chart_groups(const std::vector<Chart>& metrics,
                         const std::vector<Chart>& stats,
                         const std::string& bookkeeping_title,
                         const std::function<std::string(const Chart&)>& figure_of);

// Returns the curves of a run in these groups, with its healthy bands.
std::string chart_sections(const RunRecord& run);

// Returns what the reader calls a curve of stats.jsonl or of a metric.
std::string label_of(const std::string& name);

// Returns a figure: the chart, a line for the values below the pointer, the legend and sentences
// about the bands. Where no curve has two values yet there is no chart, and the legend has what
// there is. `points` is for each curve.
std::string chart_figure(const Chart& chart,
                         const ChartMarks& marks,
                         const std::vector<std::string>& sentences,
                         size_t points);

// Returns how many points each of so many curves may have, so that all of them together stay below
// half a megabyte.
size_t points_for(size_t curves);

}  // namespace gantrain
