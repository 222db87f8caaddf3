// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gantrain {

// One curve: (kimg, value), kimg rising.
using Curve = std::vector<std::pair<double, double>>;

// Curves by name of a run folder's stats.jsonl: the means over Progress/kimg. A run that was
// resumed shows an interval twice: the later rows win. Broken lines are skipped.
std::map<std::string, Curve> read_stats(const std::filesystem::path& run_folder);

// Curves of metric-*.jsonl by name of result ("swd", "pr/recall"), over "kimg" of a line, else over
// the number in its "snapshot".
std::map<std::string, Curve> read_metrics(const std::filesystem::path& run_folder);

}  // namespace gantrain
