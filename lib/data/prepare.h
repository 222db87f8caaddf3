// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/options.h"
#include "image/image.h"

namespace gantrain {

// How much of a JPEG must be decoded so that prepare() still starts from pixels that are at most
// half as wide as its own; with scaled_jpeg=off the whole picture.
NeededSize needed_size(const DataOptions& options);

// Whether prepare() would keep the pixels of a picture as they are.
bool is_prepared(const Image& image, int64_t channels, const DataOptions& options);

// Makes a picture fit for the networks: of options.resolution by options.fit and
// options.filter, with the given number of channels. A picture that has this size already keeps its
// pixels.
Image prepare(const Image& image, int64_t channels, const DataOptions& options);

}  // namespace gantrain
