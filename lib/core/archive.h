// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "util/file.h"

namespace gantrain {

// A state file: named tensors and one JSON text, in the zip format that Python's torch.load(path)
// opens with its defaults, as {"meta": str, "tensors": {name: tensor}}.
//
// The zip's comment holds "gantrain-xxh3-128:" and 32 hex digits, the hash of every byte of the
// file before the comment. So a truncated file, or one with a flipped bit, is never taken for a
// whole one.
struct Archive {
  std::string meta;
  std::map<std::string, at::Tensor> tensors;  // on the CPU when loaded
};

// Writes the file atomically: after a crash there is the old file or the new one, never a part.
void save_archive(const std::filesystem::path& path, const Archive& archive);

// Reads a state file. Throws UserError(kInput) that names the file and what is wrong with it.
Archive load_archive(const std::filesystem::path& path);

}  // namespace gantrain
