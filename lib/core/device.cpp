// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"

#include <ATen/Dispatch.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <atomic>

#include "core/torch.h"

namespace gantrain {

namespace {

std::atomic<int> assumptions{0};
std::atomic<bool> counts_on_meta{false};

// The function of this type for a device. They are set while libraries are loaded and only read
// from then on.
template <class Function>
Function& function_of(c10::DeviceType device) {
  static std::array<Function, c10::COMPILE_TIME_MAX_DEVICE_TYPES> all{};
  return all.at(static_cast<size_t>(device));
}

}  // namespace

bool is_gpu(at::Device device) {
  return device.is_cuda() || (device.is_meta() && counts_on_meta.load());
}

void set_counts_on_meta(bool counts) { counts_on_meta = counts; }

bool reads_are_free(at::Device device) { return device.is_cpu() && assumptions.load() == 0; }

double read_free(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu() && tensor.numel() == 1, "read_free: ", tensor.toString());
  double value = 0;
  AT_DISPATCH_ALL_TYPES_AND(at::kBool, tensor.scalar_type(), "read_free", [&] {
    value = static_cast<double>(*tensor.const_data_ptr<scalar_t>());
  });
  return value;
}

AssumeReadsWait::AssumeReadsWait() { ++assumptions; }
AssumeReadsWait::~AssumeReadsWait() { --assumptions; }

DeviceNumber::DeviceNumber(std::function<double(int64_t)> at, const at::TensorOptions& like)
    : at_(std::move(at)),
      on_device_(torch::empty({}, like)),
      on_host_(torch::empty({}, at::kDouble)) {
  advance_to(0);
}

void DeviceNumber::advance_to(int64_t images_seen) {
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

void wait_for(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(device.has_index() ? device.index() : guard.getDevice().index());
}

void set_wait_errors(c10::DeviceType device, SetWaitErrors set) {
  function_of<SetWaitErrors>(device) = set;
}

WaitsAreErrors::WaitsAreErrors(c10::DeviceType device, bool on)
    : set_(on ? function_of<SetWaitErrors>(device) : nullptr) {
  if (set_ != nullptr) set_(true);
}

WaitsAreErrors::~WaitsAreErrors() {
  if (set_ != nullptr) set_(false);
}

void set_graph_pools(c10::DeviceType device, MakeGraphPool make) {
  function_of<MakeGraphPool>(device) = make;
}

bool records_graphs(c10::DeviceType device) {
  return function_of<MakeGraphPool>(device) != nullptr;
}

std::unique_ptr<GraphPool> make_graph_pool(c10::DeviceType device) {
  const MakeGraphPool make = function_of<MakeGraphPool>(device);
  return std::unique_ptr<GraphPool>(make == nullptr ? nullptr : make());
}

}  // namespace gantrain
