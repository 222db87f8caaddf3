// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/pickle.h"

namespace gantrain {

// Globals that pickled tensors and what stands beside them name: torch's rebuilding functions,
// storages and types; numpy's numbers and arrays.
std::set<std::string, std::less<>> torch_globals();

// True for what torch's tensors and parameters are pickled as.
bool is_torch_tensor(const PickleValue& value);

// Tensors of a pickle whose storages are torch.save streams of the time before zip files (magic
// number, protocol 1001, keys, little-endian data). Each storage is copied once.
class TorchTensors {
 public:
  // `most_bytes`: what all tensors together may take; views could otherwise grow without end.
  TorchTensors(std::string source, int64_t most_bytes)
      : source_(std::move(source)), left_(most_bytes) {}

  // A contiguous tensor on the CPU with memory of its own or its storage's. Throws
  // UserError(kInput) naming source and `name`: not a tensor, a storage that is no such stream,
  // sizes and strides that leave the storage.
  at::Tensor read(const PickleValue& value, const std::string& name);

 private:
  at::Tensor view(const PickleValue& rebuilt, const std::string& name);
  const at::Tensor& storage(const PickleValue& value, const std::string& name);

  std::string source_;
  int64_t left_;
  std::map<const char*, at::Tensor> storages_;  // by where their stream begins
};

// The storage in such a stream: one dimension, of the storage's type. Throws UserError(kInput).
at::Tensor read_legacy_storage(std::string_view stream, const std::string& source);

}  // namespace gantrain
