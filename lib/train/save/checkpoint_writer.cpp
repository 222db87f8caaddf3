// SPDX-License-Identifier: Apache-2.0
#include "train/save/checkpoint_writer.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/device.h"
#include "core/torch.h"
#include "util/log.h"
#include "util/system.h"

namespace gantrain {

void HostCopies::begin() {
  used_ = 0;
  copied_.clear();
  devices_.clear();
}

at::Tensor HostCopies::copy(const at::Tensor& tensor) {
  const Elements elements{tensor.const_data_ptr(),
                          tensor.sizes().vec(),
                          tensor.strides().vec(),
                          static_cast<int>(tensor.scalar_type())};
  if (const auto at = copied_.find(elements); at != copied_.end() && tensor.numel() > 0)
    return at->second;
  if (used_ == memory_.size()) memory_.emplace_back();
  at::Tensor& memory = memory_[used_++];
  const bool on_device = !tensor.device().is_cpu();
  const bool fits = memory.defined() && memory.sizes() == tensor.sizes() &&
                    memory.scalar_type() == tensor.scalar_type() && memory.is_pinned() == on_device;
  if (!fits) {
    memory =
        at::empty(tensor.sizes(),
                  at::TensorOptions(at::kCPU).dtype(tensor.scalar_type()).pinned_memory(on_device));
  }
  const torch::NoGradGuard no_grad;
  memory.copy_(tensor.detach(), /*non_blocking=*/on_device);
  if (on_device && std::find(devices_.begin(), devices_.end(), tensor.device()) == devices_.end())
    devices_.push_back(tensor.device());
  copied_[elements] = memory;
  return memory;
}

void HostCopies::finish() {
  for (const at::Device device : devices_) wait_for(device);
}

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
  pending_ =
      std::async(std::launch::async, [save = std::move(save), afterwards = std::move(afterwards)] {
        stand_back();
        if (!save.state_path.empty()) write_state(save.state_path, save.state);
        if (!save.model_path.empty()) write_model(save.model_path, save.model);
        if (afterwards) afterwards();
      });
}

void CheckpointWriter::check() {
  const std::chrono::seconds now(0);
  if (pending_.valid() && pending_.wait_for(now) == std::future_status::ready) wait();
}

void CheckpointWriter::wait() {
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
