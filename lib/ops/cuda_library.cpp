// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda_library.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include "util/error.h"

namespace gantrain {

namespace {

template <class Function>
Function exported(const char* name) {
  void* function = dlsym(RTLD_DEFAULT, name);
  if (function == nullptr)
    fail(Exit::kEnvironment, "the CUDA library is not loaded or of another version: no {}", name);
  return reinterpret_cast<Function>(function);
}

}  // namespace

DeviceKernels completed(const DeviceKernels& some) {
  DeviceKernels all = some;
  const DeviceKernels& composed = kComposedKernels;
  if (all.upfirdn2d == nullptr) all.upfirdn2d = composed.upfirdn2d;
  if (all.bias_act == nullptr) all.bias_act = composed.bias_act;
  if (all.bias_act_gradient == nullptr) all.bias_act_gradient = composed.bias_act_gradient;
  if (all.bias_act_double_backward == nullptr)
    all.bias_act_double_backward = composed.bias_act_double_backward;
  if (all.draw == nullptr) all.draw = composed.draw;
  return all;
}

void use_cuda_library() {
  static const DeviceKernels kernels = completed(*exported<CudaKernels>(kCudaKernels)());
  set_device_kernels(c10::DeviceType::CUDA, kernels);
  set_graph_pools(c10::DeviceType::CUDA, exported<MakeGraphPool>(kCudaGraphPool));
  set_wait_errors(c10::DeviceType::CUDA, exported<SetWaitErrors>(kCudaSyncDebug));
}

at::Device begin_on_gpu(int64_t index) {
  use_cuda_library();
  const std::string objection = exported<CudaObjection>(kCudaObjection)(static_cast<int>(index));
  if (!objection.empty()) fail(Exit::kEnvironment, "{}", objection);
  at::globalContext().lazyInitDevice(at::kCUDA);
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  guard.setDevice(device);
  guard.exchangeStream(guard.getStreamFromGlobalPool(device, /*isHighPriority=*/false));
  return device;
}

}  // namespace gantrain
