// SPDX-License-Identifier: Apache-2.0
#include "core/device_number.h"

#include "core/device_reads.h"
#include "core/torch.h"

namespace gantrain {

DeviceNumber::DeviceNumber(std::function<double(int64_t)> at, const at::TensorOptions& like)
    : at_(std::move(at)),
      on_device_(torch::empty({}, like)),
      on_host_(torch::empty({}, at::kDouble)) {
  move_to(0);
}

void DeviceNumber::move_to(int64_t images_seen) {
  if (!moves()) return;
  const torch::NoGradGuard no_grad;
  const double now = at_(images_seen);
  on_host_.fill_(now);
  on_device_.fill_(now);
}

double DeviceNumber::host() const { return moves() ? read_free(on_host_) : constant_; }

// Whether operators use the host's number. They do for a constant and on a CPU, where operators are
// faster with a number; their last bits may differ from those with a tensor.
bool DeviceNumber::is_for_host() const { return !moves() || reads_are_free(on_device_.device()); }

at::Tensor DeviceNumber::times(const at::Tensor& tensor, double factor) const {
  return is_for_host() ? host() * factor * tensor : on_device_ * factor * tensor;
}

at::Tensor DeviceNumber::lerp(const at::Tensor& from, const at::Tensor& to) const {
  return is_for_host() ? at::lerp(from, to, host()) : at::lerp(from, to, on_device_);
}

}  // namespace gantrain
