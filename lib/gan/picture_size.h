// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/config.h"
#include "util/doubled_size.h"

namespace gantrain {

// Returns data.resolution, the size of the pictures that the networks make and see.
Size resolution_of(const Config& config);

// Throws UserError(kUsage) that names data.resolution and the nearest sizes that can be had, unless
// `networks` ("DCGAN's networks") that double a start size so often can have this size.
void check_doubled_size(const std::string& networks,
                        const Size& resolution,
                        const Doublings& doublings);

}  // namespace gantrain
