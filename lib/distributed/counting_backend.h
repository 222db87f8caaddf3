// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distributed/traffic.h"

namespace gantrain {

// A backend that counts collectives and passes every call on to another backend. It has all virtual
// functions of c10d::Backend 2.11, since what it left out would do nothing (abort, shutdown) or be
// refused. Calls may come from different threads of autograd one after another, but never at the
// same time. All tensors must be on `device`; where one is not, the collective throws
// std::logic_error with its name, because NCCL would fail in words that do not tell where.
class CountingBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;
  using Work = c10::intrusive_ptr<c10d::Work>;

  CountingBackend(c10::intrusive_ptr<c10d::Backend> backend, c10::Device device);

  const Traffic& traffic() const { return traffic_; }
  c10::Device device() const { return device_; }

  // From now on the number of collectives is also counted in `counter`, which must live longer than
  // this object. Other processes may read it.
  void publish(std::atomic<int64_t>& counter);

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors,
                           const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(TensorLists& outputs,
                 Tensors& inputs,
                 const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output,
                       at::Tensor& input,
                       const c10d::AllgatherOptions& options) override;
  Work allgather_coalesced(TensorLists& outputs,
                           Tensors& inputs,
                           const c10d::AllgatherOptions& options) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs,
                                       Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override;
  Work gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs,
                      TensorLists& inputs,
                      const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output,
                            at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs,
                                       Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override;
  Work alltoall_base(at::Tensor& output,
                     at::Tensor& input,
                     std::vector<int64_t>& output_sizes,
                     std::vector<int64_t>& input_sizes,
                     const c10d::AllToAllOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Work send(Tensors& tensors, int to, int tag) override;
  Work recv(Tensors& tensors, int from, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  void startCoalescing() override { backend_->startCoalescing(); }
  Work endCoalescing() override { return backend_->endCoalescing(); }

  const std::string getBackendName() const override { return backend_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return backend_->getBackendOptions(); }
  bool supportsSplitting() const override { return backend_->supportsSplitting(); }
  bool supportsCoalescing() const override { return backend_->supportsCoalescing(); }
  bool supportsTimeEstimation() const override { return backend_->supportsTimeEstimation(); }
  bool supportsShrinking() const override { return backend_->supportsShrinking(); }
  bool supportsTensorAlloc(c10::DeviceIndex index) override {
    return backend_->supportsTensorAlloc(index);
  }
  // What these make is a backend of its own, which does not count.
  c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t>& ranks,
                                     int flags,
                                     const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                    const c10::intrusive_ptr<Options>& options,
                                    const int& rank,
                                    const int& size) override;

  void setTimeout(std::chrono::milliseconds timeout) override { backend_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { backend_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return backend_->getSequenceNumberForGroup(); }
  void setGroupUid(const std::string& uid) override;
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override { backend_->waitForPendingWorks(); }
  void enableCollectivesTiming() override { backend_->enableCollectivesTiming(); }
  void eagerConnectSingleDevice(at::Device device) override {
    backend_->eagerConnectSingleDevice(device);
  }
  c10d::ErrorType getError() override { return backend_->getError(); }
  std::shared_ptr<c10::Allocator> getMemAllocator() override { return backend_->getMemAllocator(); }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    return backend_->allocateTensor(size, options);
  }
  void abort() override { backend_->abort(); }
  void shutdown() override { backend_->shutdown(); }

 private:
  void count(const char* what, const Tensors& tensors);

  c10::intrusive_ptr<c10d::Backend> backend_;
  c10::Device device_;
  Traffic traffic_;
  std::atomic<int64_t>* counter_ = nullptr;
};

}  // namespace gantrain
