// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/CachingHostAllocator.h>
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
      forget_error();
      throw;
    }
    return recorded;
  }

 private:
  // Ends a recording that failed, so that the stream and the allocators work as before.
  void give_up(CudaGraph& recorded) const {
    try {
      recorded.graph.capture_end();
    } catch (const c10::Error&) {
      end_allocation();  // the reason is on its way to the caller already
    }
    forget_error();
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

  // CUDA reports a failed recording again at the next call unless it was taken.
  static void forget_error() { static_cast<void>(cudaGetLastError()); }

  at::MempoolId_t id_ = at::cuda::graph_pool_handle();
};

}  // namespace

}  // namespace gantrain

extern "C" gantrain::GraphPool* gantrain_cuda_graph_pool() { return new gantrain::CudaGraphPool; }
