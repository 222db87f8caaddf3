// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <tuple>
#include <vector>

#include "train/save/checkpoint.h"
#include "train/save/run_folder.h"

namespace gantrain {

// Copies of tensors in host memory, which is used again by the next copies: it is page-locked for
// tensors of a GPU, and warm after the first time.
class HostCopies {
 public:
  // Begins to copy anew. Copies that were made before are overwritten.
  void begin();
  // Returns a contiguous copy in host memory, whose values are there once finish() has returned. A
  // tensor whose elements were copied since begin() is not copied twice.
  at::Tensor copy(const at::Tensor& tensor);
  // Waits for the devices that were copied from.
  void finish();

 private:
  using Elements = std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>, int>;

  std::vector<at::Tensor> memory_;
  size_t used_ = 0;  // of memory_, since begin()
  std::map<Elements, at::Tensor> copied_;
  std::vector<at::Device> devices_;
};

// Writes states and models in the background: the training waits for a copy into host memory, not
// for the disk. One save is written at a time. What was asked for is written, or said to have
// failed: it is never dropped.
class CheckpointWriter {
 public:
  // The files of one save; of an empty path none is written. The tensors may be the networks' own.
  struct Save {
    std::filesystem::path state_path, model_path;
    Archive state;
    ModelFile model;
  };

  CheckpointWriter() = default;
  ~CheckpointWriter();  // waits for the save that is being written; its failure is a warning

  // Makes the memory for copies of what `save` holds, so that the first save is as short as the
  // others.
  void reserve(const Save& save);
  // Waits until the save before this one is written, copies the tensors and returns; the files are
  // written in the background: the state, then the model, then `afterwards` is called there. Other
  // threads go before the one that writes. Throws what the save before has thrown.
  void save(Save save, std::function<void()> afterwards);
  // Throws the UserError(kDisk) of a save that has failed, once; returns at once.
  void check();
  // Waits until what was asked for is written. Throws as check() does.
  void wait();

 private:
  void copy(Save& save);

  HostCopies copies_;
  std::future<void> pending_;
};

// The bytes of the tensors of a save's files.
SaveBytes bytes_of(const CheckpointWriter::Save& save);

}  // namespace gantrain
