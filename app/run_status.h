// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "config/config.h"

namespace gantrain {

// Returns true if run.run_dir holds a run that has reached train.kimg, and then says so first.
bool already_done(const Config& config);

// Brings the files of the run up to date after its ranks have ended. If its STATUS still says
// "running", the run has failed, and STATUS says so from now on.
void note_end(const std::string& folder, int status);

}  // namespace gantrain
