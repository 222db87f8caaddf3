// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/options.h"

namespace gantrain {

// Returns the data options of the run that a model file belongs to, from the config.json beside it,
// with the data at `path` where that is not "". Returns nothing where neither names any data.
std::optional<DataOptions> data_of_run(const std::filesystem::path& model_file,
                                       const std::string& path);

}  // namespace gantrain
