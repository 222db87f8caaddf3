// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace gantrain {

// A state file: named tensors and one JSON text, in the zip format that Python's
// torch.load(path) opens with its defaults, as {"meta": str, "tensors": {name: tensor}}.
//
// The zip's comment holds "gantrain-xxh3-128:" and 32 hex digits over every byte of the file before
// it. So a truncated file, or one with any bit flipped, is never taken for a whole one.
struct Archive {
  std::string meta;
  std::map<std::string, at::Tensor> tensors;  // read back on the CPU
};

// Writes atomically: after a crash there is the old file or the new one.
void save_archive(const std::filesystem::path& path, const Archive& archive);

// Throws UserError(kInput) naming the file and what is wrong with it.
Archive load_archive(const std::filesystem::path& path);

}  // namespace gantrain
