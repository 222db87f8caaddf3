// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/dataset.h"

namespace gantrain {

// Returns a data set of the same pictures, each of size `resolution`, that keeps loaded
// pictures in memory. This process and those that are forked later share that memory if `sharers`
// is more than one: it then takes up to sharers * max_bytes. Where the system refuses that much,
// each process keeps pictures of its own, up to max_bytes. The memory has no name and vanishes with
// the last process. A process that is killed while it stores a picture leaves none behind.
//
// Kept pictures are never replaced: every pass visits all pictures, so a cache that replaced the
// oldest would never have the next one.
std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> dataset,
                                      const Size& resolution,
                                      int64_t max_bytes,
                                      int64_t sharers);

}  // namespace gantrain
