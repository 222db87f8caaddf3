// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "core/device.h"
#include "ops/gpu/library_info.h"
#include "ops/gpu/table_cuda.h"

namespace gantrain {

cuda_kernels::Stream current_stream(const at::Tensor& tensor) {
  return c10::cuda::getCurrentCUDAStream(tensor.get_device()).stream();
}

void check_launch() { C10_CUDA_KERNEL_LAUNCH_CHECK(); }

int enter_device(c10::Device device) { return c10::cuda::ExchangeDevice(device.index()); }

void leave_device(int before) {
  c10::cuda::MaybeExchangeDevice(static_cast<c10::DeviceIndex>(before));
}

namespace {

class CudaGraph final : public DeviceGraph {
 public:
  void replay() override { graph.replay(); }

  at::cuda::CUDAGraph graph;
};

// A recording sets the state of LibTorch's generator aside, and takes it up again at its end; one
// that fails never does, and every later draw on the device would be refused. So it gets a state of
// its own while this lives. (gantrain's draws do not use that generator.)
class OwnGeneratorState {
 public:
  OwnGeneratorState()
      : generator_(at::cuda::detail::getDefaultCUDAGenerator(c10::cuda::current_device())),
        kept_(generator_.graphsafe_get_state()) {
    generator_.graphsafe_set_state(generator_.clone());
  }
  ~OwnGeneratorState() { generator_.graphsafe_set_state(kept_); }
  OwnGeneratorState(const OwnGeneratorState&) = delete;
  OwnGeneratorState& operator=(const OwnGeneratorState&) = delete;

 private:
  at::Generator generator_, kept_;
};

class CudaGraphPool final : public GraphPool {
 public:
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    auto recorded = std::make_unique<CudaGraph>();
    // What runs until now may not run into the recording, and the memory that earlier calls of this
    // work left in the cache is needed for the pool.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    const OwnGeneratorState own;
    try {
      // Thread-local: loading threads and NCCL's watchdog go on calling CUDA. Autograd's own thread
      // gives its work to the stream that is recorded, which every mode allows.
      recorded->graph.capture_begin(id_, cudaStreamCaptureModeThreadLocal);
      work();
    } catch (...) {
      give_up(*recorded);
      throw;
    }
    try {
      recorded->graph.capture_end();
    } catch (...) {
      end_allocation();
      forget();
      throw;
    }
    return recorded;
  }

 private:
  // Ends a recording that failed, so that the stream and the allocators work as before.
  void give_up(CudaGraph& recorded) {
    try {
      recorded.graph.capture_end();
    } catch (const c10::Error&) {
      end_allocation();  // the reason is on its way to the caller already
    }
    forget();
  }

  // capture_end() leaves this out where CUDA had invalidated the recording: it throws before. Both
  // allocators would go on giving memory of this pool, by a function of the graph that goes. Where
  // the allocators had been told, these calls throw, and the graph releases the pool itself.
  void end_allocation() const {
    const c10::DeviceIndex device = c10::cuda::current_device();
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device, id_);
      c10::cuda::CUDACachingAllocator::releasePool(device, id_);
    } catch (const c10::Error&) {
    }
    try {
      at::HostAllocator* host = at::getHostAllocator(at::kCUDA);
      host->end_allocate_to_pool(id_);
      host->release_pool(id_);
    } catch (const c10::Error&) {
    }
  }

  // CUDA reports a failed recording again at the next call unless it was taken. The allocators do
  // not take up a pool again that its last graph has left: later graphs get another one.
  void forget() {
    static_cast<void>(cudaGetLastError());
    id_ = at::cuda::graph_pool_handle();
  }

  at::MempoolId_t id_ = at::cuda::graph_pool_handle();
};

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

// Why no context can be made on a GPU that is there, or "".
std::string unavailable(int index) {
  cudaError_t status = cudaSetDevice(index);
  if (status == cudaSuccess) status = cudaFree(nullptr);
  cudaGetLastError();
  if (status != cudaErrorDevicesUnavailable) return "";  // what comes next says what it lacks
  return fmt::format(
      "GPU {} is taken or must be reset: a process that has it alone may be at work there "
      "(nvidia-smi -q -d COMPUTE,PIDS); wait for its end, take another GPU (CUDA_VISIBLE_DEVICES), "
      "or use --device cpu",
      index);
}

std::string objection_to(int index) {
  cudaDeviceProp device{};
  if (const cudaError_t status = cudaGetDeviceProperties(&device, index); status != cudaSuccess)
    return fmt::format(
        "GPU {} cannot be used: {}. {}? Else use --device cpu",
        index,
        cudaGetErrorString(status),
        status == cudaErrorSystemNotReady
            ? "Does the fabric manager run, in the driver's own version (systemctl status "
              "nvidia-fabricmanager)"
            : "Is the driver's libcuda.so.1 here, in a container too (gantrain doctor)");
  const int oldest = oldest_architecture();
  if (10 * device.major + device.minor >= oldest) return unavailable(index);
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

extern "C" gantrain::GraphPool* gantrain_cuda_graph_pool() { return new gantrain::CudaGraphPool; }

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

// A SetWaitErrors (core/device.h) for GPUs: LibTorch's own sync-debug mode.
extern "C" void gantrain_cuda_sync_debug(bool on) {
  using c10::cuda::SyncDebugMode;
  c10::cuda::warning_state().set_sync_debug_mode(on ? SyncDebugMode::L_ERROR
                                                    : SyncDebugMode::L_DISABLED);
}
