// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gantrain {

// Returns the names of the classes that a run's models were trained on, by label, from the header
// of its newest model file; nothing for unconditional models, also where the data has labels.
std::vector<std::string> classes_of_models(const std::filesystem::path& run_folder);

}  // namespace gantrain
