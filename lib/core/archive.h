// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/pickle.h"
#include "util/file.h"

namespace gantrain {

// Returns the globals that pickled tensors use: torch's rebuilding functions, storages and types,
// and numpy's numbers and arrays, which stand beside them.
std::set<std::string, std::less<>> torch_globals();

// Whether the value is a tensor or parameter as torch pickles them.
bool is_torch_tensor(const PickleValue& value);

// Reads the tensors of a pickle. Their storages, each copied once, are torch.save streams from
// before zip files (magic number, protocol 1001, keys, little-endian data), or records beside the
// pickle.
class TorchTensors {
 public:
  // Returns the bytes of the record that a storage names by its key: uint8 [n] on the CPU. Throws
  // UserError(kInput) if there is none.
  using Records = std::function<at::Tensor(const std::string& key)>;

  // `most_bytes` bounds the memory of all tensors together; without a bound, views of one storage
  // could grow without end. Without `records`, a storage outside the pickle is refused.
  TorchTensors(std::string source, int64_t most_bytes, Records records = nullptr)
      : source_(std::move(source)), left_(most_bytes), records_(std::move(records)) {}

  // Returns a contiguous tensor on the CPU, in memory of its own or shared with its storage. Throws
  // UserError(kInput) that names the source and `name` where the value is no tensor, its storage is
  // not such a stream, or its sizes and strides leave the storage.
  at::Tensor read(const PickleValue& value, const std::string& name);

 private:
  at::Tensor view(const PickleValue& rebuilt, const std::string& name);
  at::Tensor storage(const PickleValue& value, const std::string& name);
  at::Tensor record(const PickleValue& value, const std::string& name);

  std::string source_;
  int64_t left_;
  Records records_;
  std::map<const char*, at::Tensor> storages_;    // keyed by the start of their stream
  std::map<std::string, at::Tensor> in_records_;  // the bytes of records, by key
};

// Returns the storage in such a stream: one dimension, of the storage's type. Throws
// UserError(kInput) if the stream is not well-formed.
at::Tensor read_legacy_storage(std::string_view stream, const std::string& source);

// Returns the tensors of a file that torch.save wrote of a dict before zip files: a network's
// weights. Nothing is executed. Throws UserError(kInput) that names `source`, and the tensor or
// storage at fault, where the file is another one, damaged or truncated.
std::map<std::string, at::Tensor> read_legacy_dict(std::string_view content,
                                                   const std::string& source);

// A state file: named tensors and one JSON text, in the zip format that Python's torch.load(path)
// opens with its defaults, as {"meta": str, "tensors": {name: tensor}}. The zip's comment holds
// "gantrain-xxh3-128:" and 32 hex digits, the hash of every byte before the comment, so that a
// truncated or damaged file is never taken for a whole one.
struct Archive {
  std::string meta;
  std::map<std::string, at::Tensor> tensors;  // on the CPU when loaded
};

// Writes the file atomically: after a crash there is the old file or the new one, never a part.
void save_archive(const std::filesystem::path& path, const Archive& archive);

// Reads a state file. Throws UserError(kInput) that names the file and what is wrong with it.
Archive load_archive(const std::filesystem::path& path);

}  // namespace gantrain
