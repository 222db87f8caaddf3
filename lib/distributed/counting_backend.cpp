// SPDX-License-Identifier: Apache-2.0
#include "distributed/counting_backend.h"

#include "distributed/group_backend.h"
#include "util/time.h"

namespace gantrain {

namespace {

std::vector<at::Tensor> all_of(const std::vector<std::vector<at::Tensor>>& lists) {
  std::vector<at::Tensor> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

CountingBackend::CountingBackend(c10::intrusive_ptr<c10d::Backend> backend, c10::Device device)
    : Backend(backend->getRank(), backend->getSize()),
      backend_(std::move(backend)),
      device_(device) {}

void CountingBackend::publish(std::atomic<int64_t>& counter) {
  counter_ = &counter;
  counter_->store(traffic_.collectives, std::memory_order_relaxed);
}

// Counts before the call, so that a rank that waits in a collective is seen to have entered it.
void CountingBackend::count(const char* what, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) check_on_group_device(what, tensor.device(), device_);
  traffic_.collectives += 1;
  traffic_.launched = monotonic_seconds();
  for (const at::Tensor& tensor : tensors) traffic_.bytes += static_cast<int64_t>(tensor.nbytes());
  if (counter_ != nullptr) counter_->store(traffic_.collectives, std::memory_order_relaxed);
}

CountingBackend::Work CountingBackend::broadcast(Tensors& tensors,
                                                 const c10d::BroadcastOptions& options) {
  count("broadcast", tensors);
  return backend_->broadcast(tensors, options);
}

CountingBackend::Work CountingBackend::allreduce(Tensors& tensors,
                                                 const c10d::AllreduceOptions& options) {
  count("all-reduce", tensors);
  return backend_->allreduce(tensors, options);
}

CountingBackend::Work CountingBackend::allreduce_sparse(Tensors& tensors,
                                                        const c10d::AllreduceOptions& options) {
  for (const at::Tensor& tensor : tensors)
    check_on_group_device("sparse all-reduce", tensor.device(), device_);
  count("sparse all-reduce", {});  // a sparse tensor has no size in bytes
  return backend_->allreduce_sparse(tensors, options);
}

CountingBackend::Work CountingBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  count("coalesced all-reduce", tensors);
  return backend_->allreduce_coalesced(tensors, options);
}

CountingBackend::Work CountingBackend::reduce(Tensors& tensors,
                                              const c10d::ReduceOptions& options) {
  count("reduce", tensors);
  return backend_->reduce(tensors, options);
}

CountingBackend::Work CountingBackend::allgather(TensorLists& outputs,
                                                 Tensors& inputs,
                                                 const c10d::AllgatherOptions& options) {
  count("all-gather", inputs);
  return backend_->allgather(outputs, inputs, options);
}

CountingBackend::Work CountingBackend::_allgather_base(at::Tensor& output,
                                                       at::Tensor& input,
                                                       const c10d::AllgatherOptions& options) {
  count("all-gather", {input});
  return backend_->_allgather_base(output, input, options);
}

CountingBackend::Work CountingBackend::allgather_coalesced(TensorLists& outputs,
                                                           Tensors& inputs,
                                                           const c10d::AllgatherOptions& options) {
  count("coalesced all-gather", inputs);
  return backend_->allgather_coalesced(outputs, inputs, options);
}

CountingBackend::Work CountingBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  count("coalesced all-gather", inputs);
  return backend_->allgather_into_tensor_coalesced(outputs, inputs, options);
}

CountingBackend::Work CountingBackend::gather(TensorLists& outputs,
                                              Tensors& inputs,
                                              const c10d::GatherOptions& options) {
  count("gather", inputs);
  return backend_->gather(outputs, inputs, options);
}

CountingBackend::Work CountingBackend::scatter(Tensors& outputs,
                                               TensorLists& inputs,
                                               const c10d::ScatterOptions& options) {
  count("scatter", outputs);
  return backend_->scatter(outputs, inputs, options);
}

CountingBackend::Work CountingBackend::reduce_scatter(Tensors& outputs,
                                                      TensorLists& inputs,
                                                      const c10d::ReduceScatterOptions& options) {
  count("reduce-scatter", all_of(inputs));
  return backend_->reduce_scatter(outputs, inputs, options);
}

CountingBackend::Work CountingBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  count("reduce-scatter", {input});
  return backend_->_reduce_scatter_base(output, input, options);
}

CountingBackend::Work CountingBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  count("coalesced reduce-scatter", inputs);
  return backend_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

CountingBackend::Work CountingBackend::alltoall_base(at::Tensor& output,
                                                     at::Tensor& input,
                                                     std::vector<int64_t>& output_sizes,
                                                     std::vector<int64_t>& input_sizes,
                                                     const c10d::AllToAllOptions& options) {
  count("all-to-all", {input});
  return backend_->alltoall_base(output, input, output_sizes, input_sizes, options);
}

CountingBackend::Work CountingBackend::alltoall(Tensors& outputs,
                                                Tensors& inputs,
                                                const c10d::AllToAllOptions& options) {
  count("all-to-all", inputs);
  return backend_->alltoall(outputs, inputs, options);
}

CountingBackend::Work CountingBackend::send(Tensors& tensors, int to, int tag) {
  count("send", tensors);
  return backend_->send(tensors, to, tag);
}

CountingBackend::Work CountingBackend::recv(Tensors& tensors, int from, int tag) {
  count("receive", tensors);
  return backend_->recv(tensors, from, tag);
}

CountingBackend::Work CountingBackend::recvAnysource(Tensors& tensors, int tag) {
  count("receive", tensors);
  return backend_->recvAnysource(tensors, tag);
}

CountingBackend::Work CountingBackend::barrier(const c10d::BarrierOptions& options) {
  count("barrier", {});
  return backend_->barrier(options);
}

void CountingBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  count("barrier", {});
  backend_->monitoredBarrier(options, wait_for_all);
}

c10::intrusive_ptr<c10d::Backend> CountingBackend::shrink(
    const std::vector<int64_t>& ranks, int flags, const c10::intrusive_ptr<Options>& options) {
  return backend_->shrink(ranks, flags, options);
}

c10::intrusive_ptr<c10d::Backend> CountingBackend::split(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  return backend_->split(store, ranks, options);
}

c10::intrusive_ptr<c10d::Backend> CountingBackend::merge(
    const c10::intrusive_ptr<c10d::Store>& store,
    const c10::intrusive_ptr<Options>& options,
    const int& rank,
    const int& size) {
  return backend_->merge(store, options, rank, size);
}

void CountingBackend::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);  // getGroupUid() is not virtual
  backend_->setGroupUid(uid);
}

void CountingBackend::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  onCompletionHook_ = hook;  // hasHooks() is not virtual
  backend_->registerOnCompletionHook(std::move(hook));
}

}  // namespace gantrain
