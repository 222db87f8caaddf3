// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda_library.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include "core/device.h"
#include "ops/device_kernels.h"
#include "util/error.h"

namespace gantrain {

namespace {

// A function of the CUDA library.
template <class Function>
Function exported(const char* name) {
  void* function = dlsym(RTLD_DEFAULT, name);
  if (function == nullptr)
    fail(Exit::kEnvironment, "the CUDA library is not loaded or of another version: no {}", name);
  return reinterpret_cast<Function>(function);
}

}  // namespace

at::Device begin_on_gpu(int64_t index) {
  using Kernels = const DeviceKernels* (*)();
  using Objection = const char* (*)(int index);  // why a GPU cannot run the kernels, or ""
  set_device_kernels(at::kCUDA, *exported<Kernels>("gantrain_cuda_kernels")());
  set_graph_pools(at::kCUDA, exported<MakeGraphPool>("gantrain_cuda_graph_pool"));
  set_wait_errors(at::kCUDA, exported<SetWaitErrors>("gantrain_cuda_sync_debug"));
  const std::string objection =
      exported<Objection>("gantrain_cuda_objection")(static_cast<int>(index));
  if (!objection.empty()) fail(Exit::kEnvironment, "{}", objection);
  at::globalContext().lazyInitDevice(at::kCUDA);
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  guard.setDevice(device);
  guard.exchangeStream(guard.getStreamFromGlobalPool(device, /*isHighPriority=*/false));
  return device;
}

}  // namespace gantrain
