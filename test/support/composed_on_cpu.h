// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/device_kernels.h"
#include "ops/kernels.h"

namespace gantrain {

// While it lives, operators on a CPU are composed of LibTorch's, which a tape can note
// (tape_graphs.h).
class ComposedOnCpu {
 public:
  ComposedOnCpu() { set_device_kernels(at::kCPU, kComposedKernels); }
  ~ComposedOnCpu() { set_device_kernels(at::kCPU, before_); }
  ComposedOnCpu(const ComposedOnCpu&) = delete;
  ComposedOnCpu& operator=(const ComposedOnCpu&) = delete;

 private:
  const DeviceKernels& before_ = device_kernels(at::kCPU);
  WithKernels composed_{KernelSet::kRef};
};

}  // namespace gantrain
