// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

namespace gantrain {

// numpy's .npy, version 1.0: float32 (written), float32 and float64 in C order (read, as float32),
// at least one value. Throws UserError naming the file.
void save_npy(const std::filesystem::path& path, const at::Tensor& tensor);
at::Tensor load_npy(const std::filesystem::path& path);

}  // namespace gantrain
