// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "serve/run_view.h"

namespace gantrain {

// Returns the runs' numbers in Prometheus' text format, version 0.0.4: one HELP and one TYPE line a
// metric, then a line for each run that has it. `now` is in seconds since 1970.
std::string prometheus_text(const std::vector<RunView>& runs, double now);

}  // namespace gantrain
