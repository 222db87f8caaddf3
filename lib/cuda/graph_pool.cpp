// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "core/device_graphs.h"

namespace gantrain {

namespace {

class CudaGraph final : public DeviceGraph {
 public:
  void replay() override { graph.replay(); }

  at::cuda::CUDAGraph graph;
};

class CudaGraphPool final : public GraphPool {
 public:
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    auto recorded = std::make_unique<CudaGraph>();
    // What runs until now may not run into the recording, and the memory that earlier calls of this
    // work left in the cache is needed for the pool.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    // Thread-local: loading threads and NCCL's watchdog go on calling CUDA. Autograd's own thread
    // gives its work to the stream that is recorded, which every mode allows.
    recorded->graph.capture_begin(id_, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      give_up(*recorded);
      throw;
    }
    try {
      recorded->graph.capture_end();
    } catch (...) {
      forget_error();
      throw;
    }
    return recorded;
  }

 private:
  // Ends a recording that failed, so that the stream and the allocator work as before.
  static void give_up(CudaGraph& recorded) {
    try {
      recorded.graph.capture_end();
    } catch (const c10::Error&) {
      // The reason is on its way to the caller already.
    }
    forget_error();
  }

  // CUDA reports a failed recording again at the next call unless it was taken.
  static void forget_error() { static_cast<void>(cudaGetLastError()); }

  at::MempoolId_t id_ = at::cuda::graph_pool_handle();
};

}  // namespace

}  // namespace gantrain

extern "C" gantrain::GraphPool* gantrain_cuda_graph_pool() { return new gantrain::CudaGraphPool; }
