// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distributed/group.h"

namespace gantrain {

// A backend that counts collectives and passes them on to another backend. It has the two that a
// group and c10d's Reducer call; every other one is refused by c10d::Backend, in its words. Only
// abort and shutdown would silently do nothing there. Calls may come from different threads of
// autograd one after another, but never at the same time. All tensors must be on `device`; where
// one is not, the collective throws std::logic_error with its name, because NCCL would fail in
// words that do not tell where.
class CountingBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Work = c10::intrusive_ptr<c10d::Work>;

  CountingBackend(c10::intrusive_ptr<c10d::Backend> backend, c10::Device device);

  const Traffic& traffic() const { return traffic_; }
  c10::Device device() const { return device_; }

  // From now on the number of collectives is also counted in `counter`, which must live longer than
  // this object. Other processes may read it.
  void publish(std::atomic<int64_t>& counter);

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  const std::string getBackendName() const override { return backend_->getBackendName(); }
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
