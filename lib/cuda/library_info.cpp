// SPDX-License-Identifier: Apache-2.0
#include "cuda/library_info.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace gantrain {

namespace {

// From CMake's names to nvcc's: "90-real 100" is machine code for 90 and 100, and code that later
// devices translate for 100.
std::string architectures(const std::string& names) {
  std::string text;
  std::istringstream words(names);
  for (std::string word; words >> word;) {
    const size_t dash = word.find('-');
    const std::string number = word.substr(0, dash);
    const std::string kind = dash == std::string::npos ? "" : word.substr(dash + 1);
    if (kind != "virtual") text += (text.empty() ? "sm_" : " sm_") + number;
    if (kind != "real") text += (text.empty() ? "compute_" : " compute_") + number;
  }
  return text;
}

// As CUDA counts: 13000 is 13.0.
std::string cuda_version(int code) { return fmt::format("{}.{}", code / 1000, code % 1000 / 10); }

// As NCCL and cuDNN count: 22809 is 2.28.9, 91900 is 9.19.0.
std::string library_version(int64_t code) {
  return fmt::format("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100);
}

// Those libraries come with LibTorch's, on which they are not linked here.
template <class Function>
Function* loaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

std::string runtime_found() {
  int code = 0;
  return cudaRuntimeGetVersion(&code) == cudaSuccess ? cuda_version(code) : "none";
}

std::string nccl_found() {
  auto* get = loaded<int(int*)>("ncclGetVersion");
  int code = 0;
  return get != nullptr && get(&code) == 0 ? library_version(code) : "none";
}

std::string cudnn_found() {
  auto* get = loaded<size_t()>("cudnnGetVersion");
  return get != nullptr ? library_version(static_cast<int64_t>(get())) : "none";
}

// Names of devices hold no control characters.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string device_json(int index) {
  cudaDeviceProp device{};
  char bus[32] = "";
  if (const cudaError_t status = cudaGetDeviceProperties(&device, index); status != cudaSuccess)
    return fmt::format(R"({{"index":{},"error":{}}})", index, quoted(cudaGetErrorString(status)));
  cudaDeviceGetPCIBusId(bus, sizeof bus, index);
  return fmt::format(
      R"({{"index":{},"name":{},"bus":{},"memory":"{:.1f} GB","compute capability":"{}.{}","multiprocessors":{}}})",
      index,
      quoted(device.name),
      quoted(bus),
      static_cast<double>(device.totalGlobalMem) / 1e9,
      device.major,
      device.minor,
      device.multiProcessorCount);
}

// "all pairs", "none", or the pairs that can.
std::string peer_access(int devices) {
  std::vector<std::string> pairs;
  for (int a = 0; a < devices; ++a) {
    for (int b = a + 1; b < devices; ++b) {
      int there = 0;
      int back = 0;
      cudaDeviceCanAccessPeer(&there, a, b);
      cudaDeviceCanAccessPeer(&back, b, a);
      if (there != 0 && back != 0) pairs.push_back(fmt::format("{}-{}", a, b));
    }
  }
  if (devices < 2) return "one GPU";
  if (pairs.empty()) return "none";
  const bool all = pairs.size() == static_cast<size_t>(devices) * (devices - 1) / 2;
  return all ? "all pairs" : fmt::format("{}", fmt::join(pairs, " "));
}

std::string devices_json() {
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess)
    return fmt::format(R"({{"error":{}}})", quoted(cudaGetErrorString(status)));
  std::vector<std::string> all;
  for (int i = 0; i < devices; ++i) all.push_back(device_json(i));
  return fmt::format(
      R"({{"devices":[{}],"peer access":"{}"}})", fmt::join(all, ","), peer_access(devices));
}

// The oldest architecture that kernels are compiled for, 80 for 8.0.
int oldest_architecture() {
  int oldest = 1000;
  std::istringstream words(GANTRAIN_CUDA_ARCHITECTURES_TEXT);
  for (std::string word; words >> word;) oldest = std::min(oldest, std::atoi(word.c_str()));
  return oldest;
}

std::string objection_to(int index) {
  cudaDeviceProp device{};
  if (const cudaError_t status = cudaGetDeviceProperties(&device, index); status != cudaSuccess)
    return fmt::format(
        "GPU {} cannot be used: {}. Is the driver's libcuda.so.1 here, in a container too "
        "(gantrain doctor)? Else use --device cpu",
        index,
        cudaGetErrorString(status));
  const int oldest = oldest_architecture();
  if (10 * device.major + device.minor >= oldest) return "";
  return fmt::format(
      "GPU {}, {}, has compute capability {}.{}, and the CUDA library is built for {}.{} and "
      "newer: "
      "use --device cpu, or build with -DGANTRAIN_CUDA_ARCHITECTURES=\"{}{};...\"",
      index,
      device.name,
      device.major,
      device.minor,
      oldest / 10,
      oldest % 10,
      device.major,
      device.minor);
}

}  // namespace

}  // namespace gantrain

extern "C" const char* gantrain_cuda_objection(int index) {
  static std::string text;
  text = gantrain::objection_to(index);
  return text.c_str();
}

extern "C" const char* gantrain_cuda_architectures() {
  static const std::string text = gantrain::architectures(GANTRAIN_CUDA_ARCHITECTURES_TEXT);
  return text.c_str();
}

extern "C" const char* gantrain_cuda_versions() {
  using namespace gantrain;
  static const std::string text = fmt::format(
      R"({{"cuda runtime":"made for {}, found {}","nccl":"made for {}, found {}","cudnn":"found {}"}})",
      cuda_version(CUDART_VERSION),
      runtime_found(),
      library_version(NCCL_VERSION_CODE),
      nccl_found(),
      cudnn_found());
  return text.c_str();
}

extern "C" const char* gantrain_cuda_devices() {
  static const std::string text = gantrain::devices_json();
  return text.c_str();
}
