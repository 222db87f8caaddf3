// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gantrain {

// numpy's .npy, version 1.0, with at least one value. They throw UserError that names the file.

// Writes float32.
void save_npy(const std::filesystem::path& path, const at::Tensor& tensor);
// Reads float32 or float64 in C order and returns it as `type`; none: as it is stored.
at::Tensor load_npy(const std::filesystem::path& path,
                    std::optional<at::ScalarType> type = at::kFloat);

// Such a file's content, written and read; `name` is used in messages.
std::string npy_bytes(const at::Tensor& tensor);
at::Tensor parse_npy(std::string_view content,
                     const std::string& name,
                     std::optional<at::ScalarType> type = at::kFloat);

}  // namespace gantrain
