// SPDX-License-Identifier: Apache-2.0
#include "train/host_copies.h"

#include <algorithm>

#include "core/device_waits.h"
#include "core/torch.h"

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

}  // namespace gantrain
