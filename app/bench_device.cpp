// SPDX-License-Identifier: Apache-2.0
#include "bench_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>

#include "bench_common.h"
#include "bench_convolution.h"
#include "config/value.h"
#include "core/device_waits.h"
#include "core/torch.h"
#include "cuda/library_info.h"
#include "ops/cuda_library.h"
#include "util/sample.h"
#include "util/time.h"

namespace gantrain {

namespace {

// As CUDA names the first visible GPU; "GPU" if it does not.
std::string name_of_gpu() {
  void* const found = dlsym(RTLD_DEFAULT, kCudaDevices);
  if (found == nullptr) return "GPU";
  const Json all = Json::parse(reinterpret_cast<CudaLibraryText>(found)(), nullptr, false);
  if (!all.is_object() || !all.contains("devices") || all["devices"].empty()) return "GPU";
  return all["devices"][0].value("name", "GPU");
}

// Median seconds of a call, of several rows of calls between two waits.
double seconds_on(c10::Device device, const std::function<void()>& run) {
  constexpr double kRow = 0.02;  // seconds
  constexpr int64_t kRows = 5, kMostCalls = 1000;
  const auto seconds_of = [&](int64_t calls) {
    wait_for(device);
    const double start = monotonic_seconds();
    for (int64_t i = 0; i < calls; ++i) run();
    wait_for(device);
    return monotonic_seconds() - start;
  };
  seconds_of(2);  // memory and algorithms
  const double once = seconds_of(1);
  const auto calls =
      std::clamp(static_cast<int64_t>(std::ceil(kRow / once)), int64_t{1}, kMostCalls);
  std::vector<double> each;
  for (int64_t row = 0; row < kRows; ++row)
    each.push_back(seconds_of(calls) / static_cast<double>(calls));
  return median(each);
}

}  // namespace

BenchDevice::BenchDevice(bool cuda)
    : device_(cuda ? begin_on_gpu(0) : c10::Device(c10::DeviceType::CPU)) {
  if (cuda) name_ = name_of_gpu();
}

double BenchDevice::seconds(const std::function<void()>& run) const {
  return device_.is_cpu() ? seconds_alone(run) : seconds_on(device_, run);
}

double BenchDevice::copy_speed() const {
  if (device_.is_cpu()) return gantrain::copy_speed();
  constexpr int64_t kBytes = int64_t{512} << 20;  // far more than a GPU's cache holds
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(device_);
  const at::Tensor from = torch::ones({kBytes}, bytes), to = torch::zeros({kBytes}, bytes);
  return 2.0 * static_cast<double>(kBytes) / seconds_on(device_, [&] { to.copy_(from); });
}

}  // namespace gantrain
