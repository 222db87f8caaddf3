// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "util/text.h"

namespace gantrain {

// Writes a number of images in thousands: "14.656".
inline std::string kimg_text(int64_t images) { return number(static_cast<double>(images) / 1e3); }

}  // namespace gantrain
