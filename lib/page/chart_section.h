// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "page/curves.h"
#include "page/run_record.h"
#include "page/svg.h"

namespace gantrain {

// Returns the curves of a run as HTML: quality, training and, folded, bookkeeping.
std::string chart_sections(const RunRecord& run);

// Returns a figure: the chart, a line for the values below the pointer, the legend and sentences
// about the bands. `points` is for each curve.
std::string chart_figure(const Chart& chart,
                         const ChartMarks& marks,
                         const std::vector<std::string>& sentences,
                         size_t points);

// Returns how many points each of so many curves may have, so that all of them together stay below
// half a megabyte.
size_t points_for(size_t curves);

}  // namespace gantrain
