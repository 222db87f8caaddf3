// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gantrain {

// Returns the number of cores that this process may use: those of its affinity mask, at least 1.
int64_t usable_cores();

}  // namespace gantrain
