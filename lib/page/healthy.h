// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "page/curves.h"
#include "page/run_record.h"
#include "page/svg.h"

namespace gantrain {

// Where the curves of a chart are known to be in healthy training.
struct HealthyBand {
  Band band;
  std::string words;  // a sentence with the source
};

// Returns what is known for this run's chart: by its loss, its targets and its limits.
std::vector<HealthyBand> healthy_bands(const RunRecord& run, const Chart& chart);

}  // namespace gantrain
