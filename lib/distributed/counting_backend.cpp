// SPDX-License-Identifier: Apache-2.0
#include "distributed/counting_backend.h"

#include "util/time.h"

namespace gantrain {

CountingBackend::CountingBackend(c10::intrusive_ptr<c10d::Backend> backend)
    : Backend(backend->getRank(), backend->getSize()), backend_(std::move(backend)) {}

void CountingBackend::count(const std::vector<at::Tensor>& tensors) {
  traffic_.collectives += 1;
  traffic_.launched = monotonic_seconds();
  for (const at::Tensor& tensor : tensors) traffic_.bytes += static_cast<int64_t>(tensor.nbytes());
}

c10::intrusive_ptr<c10d::Work> CountingBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                          const c10d::AllreduceOptions& options) {
  count(tensors);
  return backend_->allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> CountingBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                          const c10d::BroadcastOptions& options) {
  count(tensors);
  return backend_->broadcast(tensors, options);
}

c10::intrusive_ptr<c10d::Work> CountingBackend::barrier(const c10d::BarrierOptions& options) {
  count({});
  return backend_->barrier(options);
}

}  // namespace gantrain
