// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gantrain {

// Tensors with their names, in a fixed order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A safetensors file (format: 8-byte length, JSON header, one buffer), read by Python's
// safetensors.
struct TensorFile {
  std::map<std::string, at::Tensor> tensors;    // on the CPU, own memory
  std::map<std::string, std::string> metadata;  // the header's __metadata__
};

// Throws UserError(kInput) naming the file, and the tensor where one is at fault: truncated, header
// not JSON or over 100 MB, ranges outside the file, overlapping or of the wrong size.
TensorFile load_safetensors(const std::filesystem::path& path);

// Writes atomically. Tensors of any device and layout; names must differ.
void save_safetensors(const std::filesystem::path& path,
                      const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata);

}  // namespace gantrain
