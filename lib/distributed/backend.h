// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distributed/group.h"
#include "distributed/options.h"
#include "util/error.h"
#include "util/rank_info.h"

namespace c10d {
class ProcessGroup;
}

namespace gantrain {

struct BackendSettings {
  RankInfo ranks;  // if ranks.nodes is 1, gloo uses the loopback interface
  std::chrono::milliseconds
      timeout;  // the longest that a collective may take; not of NCCL with may_abort
  // Of several nodes: the address at which gloo lets the others connect; "": it chooses. The
  // environment's GLOO_SOCKET_IFNAME goes before it.
  std::string address;
  bool may_abort = false;  // whether ranks may be lost without the end of the run
};

// Makes a process group with one backend, for tensors on `device`. gloo is part of libtorch_cpu;
// NCCL comes from the CUDA library (nccl.cpp), which must have been loaded. Throws what c10d
// throws.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    BackendKind backend,
    const c10::intrusive_ptr<c10d::Store>& store,
    const BackendSettings& settings,
    c10::Device device);

// What went through a group that make_process_group() has made.
Traffic traffic_of(const c10d::ProcessGroup& group, c10::Device device);

// The function that the CUDA library exports under this name. It returns a new reference, which the
// caller owns.
using MakeNccl = c10d::Backend* (*)(c10d::Store* store, const BackendSettings& settings);
inline constexpr const char* kMakeNccl = "gantrain_make_nccl";

// The purpose of all-reduces of gradients, in a rank's trace.
inline constexpr const char* kGradients = "gradients";

// Counts collectives and passes them on to another backend. It has the two that a group and c10d's
// Reducer call, and passes on send and recv, which are no collectives; c10d::Backend refuses every
// other one, but abort and shutdown, which would silently do nothing there. Calls may come from
// different threads, one after another. Where a tensor is not on `device`, the collective throws
// std::logic_error with its name; NCCL would not tell where.
class CountingBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Work = c10::intrusive_ptr<c10d::Work>;

  CountingBackend(c10::intrusive_ptr<c10d::Backend> backend, c10::Device device)
      : Backend(backend->getRank(), backend->getSize()),
        backend_(std::move(backend)),
        device_(device) {}

  const Traffic& traffic() const { return traffic_; }
  c10::Device device() const { return device_; }

  // From now on collectives are also noted in `trace`, which must live longer than this object.
  // Where gloo makes them, their ends are, too; a GPU is not asked.
  void note_in(RankTrace& trace);
  // What the collectives from now on are for: a literal. Returns what it was before.
  const char* set_purpose(const char* purpose) { return std::exchange(purpose_, purpose); }
  // Counts a call of Group that began at that time and returns now, in monotonic seconds.
  void count_wait(double since);

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work send(Tensors& tensors, int to, int tag) override { return backend_->send(tensors, to, tag); }
  Work recv(Tensors& tensors, int from, int tag) override {
    return backend_->recv(tensors, from, tag);
  }
  const std::string getBackendName() const override { return backend_->getBackendName(); }
  void abort() override { backend_->abort(); }
  void shutdown() override { backend_->shutdown(); }

 private:
  void count(const char* what, const Tensors& tensors);
  Work watched(Work work);

  c10::intrusive_ptr<c10d::Backend> backend_;
  c10::Device device_;
  Traffic traffic_;
  const char* purpose_ = kGradients;  // the reducer's calls do not come from a Group
  RankTrace* trace_ = nullptr;
};

// A call of Group: while it lives, the group's collectives are for that purpose, and its time
// counts as waiting.
class GroupCall {
 public:
  GroupCall(const Group& group, const char* purpose);
  ~GroupCall();
  GroupCall(const GroupCall&) = delete;
  GroupCall& operator=(const GroupCall&) = delete;

 private:
  c10::intrusive_ptr<CountingBackend> backend_;
  const char* before_;
  double since_;  // monotonic seconds
};

// For calls that may never return: where this object still lives after `seconds`, a thread calls
// `late`. The second form ends this process: the thread throws UserError(code) with `message`,
// which nothing catches, so that the process reports it and dies of SIGABRT.
class Deadline {
 public:
  Deadline(double seconds, std::function<void()> late);
  Deadline(double seconds, Exit code, std::string message);
  ~Deadline();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

// A rank whose work is done shuts its process group down, which waits for what is still under way.
// A rank that has failed must not wait: a peer may be dead, and NCCL would wait for it for ever. It
// leaves the group alone, reports why it failed, and aborts the group last, which wakes the peers
// that wait in a collective.

// Shuts the group down. Returns false if that has not ended after `seconds`, or if it failed; then
// the group is left as it is until the process ends.
bool shut_down(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
               c10::Device device,
               double seconds);

// Keeps the group and its threads as they are until the process ends or
// abort_abandoned_groups() is called.
void abandon(c10::intrusive_ptr<c10d::ProcessGroup> group, c10::Device device);

}  // namespace gantrain
