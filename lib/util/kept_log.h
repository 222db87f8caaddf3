// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gantrain {

// From now on this process keeps a copy of the lines that it logs (util/log.h), for a file that is
// not known yet, or whose disk must not be waited for now. set_log() ends this and forgets them.
// Lines are kept from Level::kInfo up whatever the console shows, at most 10,000 of them.
void keep_log_lines();

// Returns the lines kept since the last call, each as a log file has it, with its time.
std::vector<std::string> take_kept_lines();

}  // namespace gantrain
