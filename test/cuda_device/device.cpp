// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "ops/cuda_library.h"
#include "train/step/mixed_precision.h"
#include "util/file.h"

namespace gantrain {

namespace {

struct Found {
  std::optional<c10::Device> device;
  std::string why_not;
};

bool asks_for_cpu() {
  const char* asked = std::getenv("GANTRAIN_TEST_DEVICE");
  return asked != nullptr && std::string(asked) == "cpu";
}

Found find() {
  if (asks_for_cpu()) return {{}, "GANTRAIN_TEST_DEVICE=cpu"};
  // cuBLAS reads it once; tests of equal bits need it.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const std::filesystem::path library = executable_folder() / "libgantrain_cuda.so";
  if (!std::filesystem::exists(library)) return {{}, "this build has no CUDA library"};
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return {{}, std::string("the CUDA library cannot be loaded: ") + dlerror()};
  if (c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).deviceCount() == 0)
    return {{}, "no GPU is visible"};
  const c10::Device device = begin_on_gpu(0);
  allow_tf32(false);
  return {device, ""};
}

const Found& found() {
  static const Found once = find();
  return once;
}

}  // namespace

std::optional<c10::Device> gpu_or_skip() {
  if (!found().device) WARN("skipped: " << found().why_not);
  return found().device;
}

std::optional<c10::Device> device_or_skip() {
  if (asks_for_cpu()) return c10::Device(c10::DeviceType::CPU);
  return gpu_or_skip();
}

}  // namespace gantrain
