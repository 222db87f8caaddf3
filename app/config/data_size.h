// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "config/config.h"
#include "data/picture_sizes.h"

namespace gantrain {

// Decides data.resolution where neither a flag, a file nor the environment gives it. A run that
// goes on keeps the size that it began with, and one that begins at other weights takes theirs.
// Else, where data.size_from allows it, it follows from the pictures: their size where at least
// half of them have it and the networks can make it; the preset's where they have to be reduced;
// else the size that the networks can make next to the pictures'. `look` is called only where the
// pictures matter, and may tell of none. Returns a line that says what was chosen and why, or "".
std::string choose_resolution(Config& config, const std::function<PictureSizes()>& look);

}  // namespace gantrain
