// SPDX-License-Identifier: Apache-2.0
#include "ops/device_kernels.h"

namespace gantrain {

namespace {

using Table = std::array<const DeviceKernels*, c10::COMPILE_TIME_MAX_DEVICE_TYPES>;

// Filled while libraries are loaded, read only from then on.
Table& table() {
  static Table kernels = [] {
    Table all;
    all.fill(&kComposedKernels);
    return all;
  }();
  return kernels;
}

}  // namespace

const DeviceKernels& device_kernels(c10::DeviceType device) {
  return *table()[static_cast<size_t>(device)];
}

void set_device_kernels(c10::DeviceType device, const DeviceKernels& kernels) {
  table()[static_cast<size_t>(device)] = &kernels;
}

}  // namespace gantrain
