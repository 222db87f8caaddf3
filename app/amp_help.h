// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

// `gantrain help amp`: what there is, and what it is called elsewhere.
extern const char* const kAmpHelp;

}  // namespace gantrain
