// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_writer.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

#include "util/block_signals.h"
#include "util/log.h"

namespace gantrain {

namespace {

// The training's own threads go first, and signals are theirs.
void stand_back() {
  constexpr int kNice = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
  block_signals();
}

}  // namespace

CheckpointWriter::~CheckpointWriter() {
  try {
    wait();
  } catch (const std::exception& e) {
    warn("{}", e.what());
  }
}

void CheckpointWriter::copy(Save& save) {
  copies_.begin();
  for (auto& [name, tensor] : save.state.tensors) tensor = copies_.copy(tensor);
  for (auto& [name, tensor] : save.model.tensors) tensor = copies_.copy(tensor);
  copies_.finish();
}

void CheckpointWriter::reserve(const Save& save) {
  wait();
  Save copied = save;
  copy(copied);
}

void CheckpointWriter::save(Save save, std::function<void()> afterwards) {
  wait();
  copy(save);
  pace_.relax();
  pending_ = std::async(std::launch::async,
                        [this, save = std::move(save), afterwards = std::move(afterwards)] {
                          stand_back();
                          pace_.begin();
                          const BetweenWrites rest = [this] { pace_.rest(); };
                          if (!save.state_path.empty())
                            write_state(save.state_path, save.state, rest);
                          if (!save.model_path.empty())
                            write_model(save.model_path, save.model, rest);
                          if (afterwards) afterwards();
                        });
}

void CheckpointWriter::check() {
  const std::chrono::seconds now(0);
  if (pending_.valid() && pending_.wait_for(now) == std::future_status::ready) wait();
}

void CheckpointWriter::wait() {
  pace_.hurry();
  if (pending_.valid()) pending_.get();
}

SaveBytes bytes_of(const CheckpointWriter::Save& save) {
  SaveBytes bytes;
  for (const auto& [name, tensor] : save.state.tensors)
    bytes.state += static_cast<int64_t>(tensor.nbytes());
  for (const auto& [name, tensor] : save.model.tensors)
    bytes.model += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace gantrain
