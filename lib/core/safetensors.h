// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "util/file.h"

namespace gantrain {

// Tensors with their names, in a fixed order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A file in the safetensors format: an 8-byte length, a JSON header, one buffer. Python's
// safetensors reads and writes it too.
struct TensorFile {
  std::map<std::string, at::Tensor> tensors;    // on the CPU, in memory of their own
  std::map<std::string, std::string> metadata;  // the header's __metadata__
};

// Reads a file. Throws UserError(kInput) that names the file, and the tensor if one is at fault,
// where the file is truncated, its header is no JSON or over 100 MB, or ranges lie outside the
// file, overlap or have the wrong size.
TensorFile load_safetensors(const std::filesystem::path& path);

// Writes a file atomically. Tensors may have any device and layout; names must differ.
void save_safetensors(const std::filesystem::path& path,
                      const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata);

}  // namespace gantrain
