// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distributed/traffic.h"

namespace gantrain {

// A backend that counts collectives and passes them on to another backend. It has the collectives
// that gantrain uses. Calls may come from different threads of autograd one after another, but
// never at the same time.
class CountingBackend final : public c10d::Backend {
 public:
  explicit CountingBackend(c10::intrusive_ptr<c10d::Backend> backend);

  const std::string getBackendName() const override { return backend_->getBackendName(); }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;
  void setSequenceNumberForGroup() override { backend_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return backend_->getSequenceNumberForGroup(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return backend_->getBackendOptions(); }

  const Traffic& traffic() const { return traffic_; }

 private:
  void count(const std::vector<at::Tensor>& tensors);

  c10::intrusive_ptr<c10d::Backend> backend_;
  Traffic traffic_;
};

}  // namespace gantrain
