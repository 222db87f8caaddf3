// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/options.h"
#include "image/image.h"

namespace gantrain {

// `image` as networks want it: options.resolution a side by options.fit and options.filter, with
// the given number of channels. A picture that has the size already keeps its pixels.
Image prepare(Image image, int64_t channels, const DataOptions& options);

}  // namespace gantrain
