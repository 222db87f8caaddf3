// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/dataset.h"

namespace gantrain {

// Returns a data set of the same pictures that keeps loaded pictures in memory, up to max_bytes.
// Kept pictures are never replaced: every pass visits all pictures, so a cache that replaced the
// oldest would never have the next one.
std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> dataset, int64_t max_bytes);

}  // namespace gantrain
