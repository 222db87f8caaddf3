// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>

#include "core/safetensors.h"

namespace gantrain {

// numpy's .npz: a zip archive with one .npy file for each array.

// Writes float32 arrays, stored as numpy.savez() does. Throws UserError(kDisk).
void save_npz(const std::filesystem::path& path, const NamedTensors& arrays);

// Reads the array `key` as float32. Throws UserError(kInput) that names the file, and the arrays
// that it has where `key` is not among them. Content that is broken, encrypted, larger than 256 MB,
// or no float32 or float64 array in C order is refused before memory is taken for it.
at::Tensor load_npz(const std::filesystem::path& path, const std::string& key);

// Whether a file begins as zip archives do, whatever its name.
bool is_npz(const std::filesystem::path& path);

}  // namespace gantrain
