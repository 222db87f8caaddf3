// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/dataset.h"

namespace gantrain {

// The same pictures, kept in memory once loaded while there is room. Which ones are kept never
// changes: every pass visits all pictures, so that replacing the oldest would never hit.
std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> dataset, int64_t max_bytes);

}  // namespace gantrain
