// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "util/file.h"

namespace gantrain {

// Tensors with their names, in a fixed order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A file in the safetensors format: an 8-byte length, a JSON header, one buffer.
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

// numpy's .npy, version 1.0, with at least one value. They throw UserError that names the file.

// Writes float32, and uint8 as it is.
void save_npy(const std::filesystem::path& path, const at::Tensor& tensor);
// Reads float32 or float64 in C order and returns it as `type`; none: as it is stored.
at::Tensor load_npy(const std::filesystem::path& path,
                    std::optional<at::ScalarType> type = at::kFloat);

// Such a file's content, written and read; `name` is used in messages.
std::string npy_bytes(const at::Tensor& tensor);
at::Tensor parse_npy(std::string_view content,
                     const std::string& name,
                     std::optional<at::ScalarType> type = at::kFloat);

// numpy's .npz: a zip archive with one .npy file for each array.

// Writes float32 arrays, stored as numpy.savez() does. Throws UserError(kDisk).
void save_npz(const std::filesystem::path& path, const NamedTensors& arrays);

// Reads the array `key` as float32. Throws UserError(kInput) that names the file, and the arrays
// that it has where `key` is not among them. Content that is broken, encrypted, larger than 256 MB,
// or no float32 or float64 array in C order is refused before memory is taken for it.
at::Tensor load_npz(const std::filesystem::path& path, const std::string& key);

// Whether a file begins as zip archives do, whatever its name.
bool is_npz(const std::filesystem::path& path);

// Files of numpy arrays (core/tensor_files.h) that hold texts beside their numbers.

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
