// SPDX-License-Identifier: Apache-2.0
#include "ops/device_kernels.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <atomic>
#include <cmath>

#include "core/device.h"
#include "ops/kernels.h"
#include "util/error.h"

namespace gantrain {

using at::Tensor;

namespace {

// Atomic, because backward passes on a GPU read it from autograd's own thread.
std::atomic<KernelSet>& chosen() {
  static std::atomic<KernelSet> set{KernelSet::kAuto};
  return set;
}

}  // namespace

void use_kernels(KernelSet set) { chosen() = set; }

KernelSet kernels_in_use() { return chosen(); }

WithKernels::WithKernels(KernelSet set) : before_(kernels_in_use()) { use_kernels(set); }

WithKernels::~WithKernels() { use_kernels(before_); }

const DeviceKernels kComposedKernels{
    composed_upfirdn2d, composed_bias_act, composed_bias_act_gradient, composed_draw};

namespace {

constexpr FusedKernels kCpuFusedKernels{
    .act = cpu_act,
    .act_gradient = cpu_act_gradient,
    .act_second = cpu_act_second,
    .plane_products = cpu_plane_products,
    .scaled_planes = cpu_scaled_planes,
    .minibatch_std = cpu_minibatch_std,
    .minibatch_std_gradient = cpu_minibatch_std_gradient,
    .pixel_norm = cpu_pixel_norm,
    .pixel_norm_gradient = cpu_pixel_norm_gradient,
    .adain = cpu_adain,
    .adain_gradient = cpu_adain_gradient,
    .filtered_lrelu = cpu_filtered_lrelu,
    .filtered_slopes = cpu_filtered_slopes,
};

constexpr DeviceKernels kCpuKernels{
    .upfirdn2d = cpu_upfirdn2d,
    .bias_act = cpu_bias_act,
    .bias_act_gradient = cpu_bias_act_gradient,
    .draw = cpu_draw,
    .fused = &kCpuFusedKernels,
};

// For each type of device. It is filled while libraries are loaded and only read from then on.
auto& table() {
  static auto kernels = [] {
    std::array<const DeviceKernels*, c10::COMPILE_TIME_MAX_DEVICE_TYPES> all;
    all.fill(&kComposedKernels);
    all[static_cast<size_t>(c10::DeviceType::CPU)] = &kCpuKernels;
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

bool ActNumbers::constant_slope() const { return alpha == 1 && std::isinf(clamp); }

const FusedKernels* fused_kernels_for(const Tensor& x, at::ScalarType type) {
  const FusedKernels* kernels = device_kernels(x.device().type()).fused;
  if (kernels == nullptr || kernels_in_use() == KernelSet::kRef) return nullptr;
  const bool half = type == at::kHalf || type == at::kBFloat16;
  return type == at::kFloat || (half && kernels->half_types) ? kernels : nullptr;
}

// Only the CUDA library has that kernel.
bool launches_cost(const Tensor& x) { return has_fused_kernel(&FusedKernels::act_scaled, x); }

const FusedKernels& fused_kernels_of(const Tensor& x) {
  const FusedKernels* kernels = device_kernels(x.device().type()).fused;
  TORCH_CHECK(kernels != nullptr, "no fused kernels for tensors on ", x.device());
  return *kernels;
}

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

void check_device_interface(const std::string& found) {
  const std::string own = device_interface(GANTRAIN_DEVICE_HEADERS);
  if (found == own) return;
  fail(
      Exit::kEnvironment,
      "the CUDA library is of another build than this program ({} instead of {}): build or install "
      "both together",
      found,
      own);
}

void allow_tf32(bool allow) {
  at::globalContext().setAllowTF32CuBLAS(allow);
  at::globalContext().setAllowTF32CuDNN(allow);
}

at::Device begin_on_gpu(int64_t index) {
  using Kernels = const DeviceKernels* (*)();
  using Objection = const char* (*)(int index);  // why a GPU cannot run the kernels, or ""
  using Interface = const char* (*)();
  check_device_interface(exported<Interface>("gantrain_cuda_interface")());
  set_device_kernels(at::kCUDA, *exported<Kernels>("gantrain_cuda_kernels")());
  set_graph_pools(at::kCUDA, exported<MakeGraphPool>("gantrain_cuda_graph_pool"));
  set_wait_errors(at::kCUDA, exported<SetWaitErrors>("gantrain_cuda_sync_debug"));
  const std::string objection =
      exported<Objection>("gantrain_cuda_objection")(static_cast<int>(index));
  if (!objection.empty()) fail(Exit::kEnvironment, "{}", objection);
  at::globalContext().lazyInitDevice(at::kCUDA);
  allow_tf32(false);
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  guard.setDevice(device);
  guard.exchangeStream(guard.getStreamFromGlobalPool(device, /*isHighPriority=*/false));
  return device;
}

}  // namespace gantrain
