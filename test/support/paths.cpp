// SPDX-License-Identifier: Apache-2.0
#include "support/paths.h"

namespace gantrain {

std::string source_folder() { return GANTRAIN_SOURCE; }
std::string fixtures_folder() { return GANTRAIN_SOURCE "/test/fixtures"; }
std::string build_folder() { return GANTRAIN_BUILD; }

}  // namespace gantrain
