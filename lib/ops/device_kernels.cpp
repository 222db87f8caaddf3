// SPDX-License-Identifier: Apache-2.0
#include "ops/device_kernels.h"

#include "ops/fused_kernels.h"

namespace gantrain {

namespace {

using Table = std::array<const DeviceKernels*, c10::COMPILE_TIME_MAX_DEVICE_TYPES>;

const DeviceKernels& cpu_kernels() {
  static const DeviceKernels kernels = [] {
    DeviceKernels all = kComposedKernels;
    all.upfirdn2d = cpu_upfirdn2d;
    all.bias_act = cpu_bias_act;
    all.bias_act_gradient = cpu_bias_act_gradient;
    all.bias_act_double_backward = cpu_bias_act_double_backward;
    all.draw = cpu_draw;
    all.fused = &kCpuFusedKernels;
    return all;
  }();
  return kernels;
}

// It is filled while libraries are loaded and only read from then on.
Table& table() {
  static Table kernels = [] {
    Table all;
    all.fill(&kComposedKernels);
    all[static_cast<size_t>(c10::DeviceType::CPU)] = &cpu_kernels();
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
