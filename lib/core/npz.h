// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/tensor_files.h"

// Files of numpy arrays (core/tensor_files.h) that hold texts beside their numbers.

namespace gantrain {

// Writes float32 arrays and ASCII texts, stored as numpy.savez() does; a text is an array of shape
// () of Unicode, str(numpy.load(path)[name]). Throws UserError(kDisk).
void save_npz(const std::filesystem::path& path,
              const NamedTensors& arrays,
              const std::map<std::string, std::string>& texts);

// Returns the names of the arrays in the file. Throws UserError(kInput) that names the file.
std::vector<std::string> npz_names(const std::filesystem::path& path);

// Reads the text `key`. Throws as load_npz() does; an array that is no text of ASCII is refused.
std::string load_npz_text(const std::filesystem::path& path, const std::string& key);

}  // namespace gantrain
