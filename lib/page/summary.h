// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "page/run_record.h"
#include "page/verdict.h"

namespace gantrain {

// Returns the verdicts on a run, with its own limits of collapse.
std::vector<Verdict> judge(const RunRecord& run);

// The speed of the last ticks; nothing where no tick has been reported.
std::optional<double> images_per_second(const RunRecord& run);
// How long a run at work will take at that speed; nothing where that is not known.
std::optional<double> seconds_to_go(const RunRecord& run);

// Returns the top of a run's page as HTML: verdict and facts.
std::string summary_html(const RunRecord& run);
std::string verdict_html(const Verdict& verdict);

// Returns how the ranks of a failed run ended and the command that goes on; "" where there is
// nothing to say.
std::string ending_section(const RunRecord& run);

}  // namespace gantrain
