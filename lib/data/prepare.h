// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/options.h"
#include "image/image.h"

namespace gantrain {

// Makes an image fit for the networks: options.resolution pixels a side by options.fit and
// options.filter, with the given number of channels. A picture that has this size already keeps its
// pixels.
Image prepare(Image image, int64_t channels, const DataOptions& options);

}  // namespace gantrain
