// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace gantrain {

// A tensor as files hold it: a second reader and writer, independent of the program's own.
struct FileTensor {
  std::string dtype;  // safetensors' name: F32, F64, I64
  std::vector<int64_t> shape;
  std::string bytes;

  std::vector<double> values() const;  // F32 and F64 alone
};

using FileTensors = std::map<std::string, FileTensor>;

FileTensors read_safetensors(const std::filesystem::path& path);

// Packed without gaps in the order of the names, header padded to eight bytes, as the format asks.
void write_safetensors(const std::filesystem::path& path,
                       const FileTensors& tensors,
                       const std::map<std::string, std::string>& metadata);

// numpy's format 1.0, little endian, C order, float32.
FileTensor read_npy(const std::filesystem::path& path);
void write_npy(const std::filesystem::path& path, const FileTensor& tensor);

// Largest |a - b|; requires equal sizes.
double max_distance(const FileTensor& a, const FileTensor& b);

}  // namespace gantrain
