// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gantrain {

// Returns the name of this machine, as `hostname` prints it.
std::string host_name();

}  // namespace gantrain
