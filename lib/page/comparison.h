// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gantrain {

// Returns one self-contained page that compares runs: verdicts and facts, the keys of the
// configuration that differ, the latest grids side by side, curves over each other. Throws
// UserError(kInput) that names the first folder that is no run folder, or one without a row of
// stats.jsonl.
std::string render_comparison(const std::vector<std::filesystem::path>& run_folders);

}  // namespace gantrain
