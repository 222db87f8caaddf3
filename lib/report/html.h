// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace gantrain {

// Returns one self-contained page about a run: the curves of stats.jsonl and metric-*.jsonl, each
// explained in a sentence, the sample pictures (latest, fakes_init, reals) and the settings.
// Missing files and broken lines are left out.
std::string render_report(const std::filesystem::path& run_folder);

// Writes render_report() to RUN_FOLDER/report.html, atomically. Throws UserError(kDisk).
void write_report(const std::filesystem::path& run_folder);

}  // namespace gantrain
