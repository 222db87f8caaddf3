// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "page/run_record.h"

namespace gantrain {

// Fills run.incidents, run.resumes and run.next: resumes, restarts, warnings and errors of log.txt,
// errors of the other ranks' logs, failures of earlier sessions (errors/earlier-*), and what a run
// has left behind (superseded-*). Of very many incidents the first and the last ones are kept.
void read_incidents(const std::filesystem::path& folder, RunRecord& run);

}  // namespace gantrain
