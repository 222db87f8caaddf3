// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <future>

#include "train/checkpoint.h"
#include "train/disk_need.h"
#include "train/host_copies.h"
#include "train/write_pace.h"

namespace gantrain {

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
  // written in the background: the state, then the model, then `afterwards` is called there. The
  // writing takes a quarter of one core at most, until somebody waits for it. Throws what the save
  // before has thrown.
  void save(Save save, std::function<void()> afterwards);
  // Throws the UserError(kDisk) of a save that has failed, once; returns at once.
  void check();
  // Waits until what was asked for is written. Throws as check() does.
  void wait();

 private:
  void copy(Save& save);

  HostCopies copies_;
  WritePace pace_;
  std::future<void> pending_;
};

// The bytes of the tensors of a save's files.
SaveBytes bytes_of(const CheckpointWriter::Save& save);

}  // namespace gantrain
