// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

// The text of `gantrain help amp`: the options of mixed precision, and their names in other
// programs.
extern const char* const kAmpHelp;

}  // namespace gantrain
