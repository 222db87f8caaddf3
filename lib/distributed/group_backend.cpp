// SPDX-License-Identifier: Apache-2.0
#include "distributed/group_backend.h"

#include <fmt/format.h>

#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distributed/counting_backend.h"

namespace gantrain {

namespace {

// Group makes its process group with this backend and no other.
c10::intrusive_ptr<CountingBackend> backend_of(const Group& group) {
  return c10::dynamic_intrusive_pointer_cast<CountingBackend>(
      group.process_group()->getDefaultBackend());
}

}  // namespace

c10::Device device_of(const Group& group) {
  return group.world() == 1 ? c10::Device(c10::kCPU) : backend_of(group)->device();
}

void publish_collectives(const Group& group, std::atomic<int64_t>& counter) {
  if (group.world() > 1) backend_of(group)->publish(counter);
}

void check_on_group_device(const char* call, c10::Device tensor, c10::Device group) {
  const bool same_index =
      !tensor.has_index() || !group.has_index() || tensor.index() == group.index();
  if (tensor.type() == group.type() && same_index) return;
  throw std::logic_error(
      fmt::format("{}: a tensor on {} in a group on {}", call, tensor.str(), group.str()));
}

}  // namespace gantrain
