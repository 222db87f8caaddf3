// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace gantrain {

// Returns the folder in which results of that kind are kept between commands, which may not exist
// yet: $GANTRAIN_CACHE_DIR/KIND, else $XDG_CACHE_HOME/gantrain/KIND, else
// ~/.cache/gantrain/KIND; "" where there is no home folder.
std::filesystem::path cache_folder(const std::string& kind);

}  // namespace gantrain
