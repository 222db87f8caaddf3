// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gantrain {

// One curve: pairs (kimg, value) with rising kimg.
using Curve = std::vector<std::pair<double, double>>;

// Reads the curves of a run folder's stats.jsonl by name: the means over Progress/kimg. Where a
// resumed run has rows twice, the later rows are used. Broken lines are skipped.
std::map<std::string, Curve> read_stats(const std::filesystem::path& run_folder);

// Reads the curves of metric-*.jsonl by the name of the result ("swd", "pr/recall"), over the
// line's "kimg" or else the number in its "snapshot". Results of different recipes (the line's
// "recipe": numbers of pictures, detector, seed) cannot be compared: those of the file's first one
// have the plain name, and others curves of their own, "fid (50000 fakes)".
std::map<std::string, Curve> read_metrics(const std::filesystem::path& run_folder);

// Returns how far the training was, in kimg, as a line of stats.jsonl or of metric-*.jsonl tells
// it; nothing if the line is no whole row, or does not tell it.
std::optional<double> kimg_of_line(const std::string& line);

// Returns the first number in the name of a file: 200.16 of "model-000200.160.safetensors".
std::optional<double> kimg_in_name(const std::string& name);

}  // namespace gantrain
