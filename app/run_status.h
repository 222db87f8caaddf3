// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "config/config.h"

namespace gantrain {

// True, after saying so, if run.run_dir holds a run that has reached train.kimg.
bool already_done(const Config& config);

// After the ranks have ended: a run that still says "running" has failed.
void note_end(const std::string& folder, int status);

}  // namespace gantrain
