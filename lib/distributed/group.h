// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/safetensors.h"
#include "distributed/options.h"
#include "util/rank_info.h"

namespace c10d {
class ProcessGroup;
}

namespace gantrain {

// What one rank has put through a process group since the group was made.
struct Traffic {
  int64_t collectives = 0;
  int64_t bytes = 0;    // of the tensors that the rank gave; the algorithm may send more or less
  double launched = 0;  // monotonic_seconds() when the last collective began
};

// The ranks of a run. With one rank there is no process group and every call returns at once.
// The calls are collective: all ranks must make the same calls in the same order. If a rank fails
// or disappears, the others throw UserError(kEnvironment), which names the operation.
class Group {
 public:
  // Meets the other ranks and makes a first all-reduce with them. Tensors of later calls must be on
  // `device`. No operation waits longer than `timeout_seconds`. Throws UserError(kEnvironment) with
  // the address, the rank and what can be done.
  static std::shared_ptr<Group> join(const Rendezvous& rendezvous,
                                     BackendKind backend,
                                     at::Device device,
                                     double timeout_seconds);
  ~Group();

  const RankInfo& ranks() const { return ranks_; }
  int64_t rank() const { return ranks_.rank; }
  int64_t world() const { return ranks_.world; }

  void sum_(at::Tensor& tensor);        // replaces the values by their sum over all ranks
  void broadcast_(at::Tensor& tensor);  // replaces the values by those of rank 0
  void barrier();                       // returns when all ranks have called it

  // Runs `work` on rank 0 alone and returns when it is done, on all ranks. The others wait outside
  // of any collective, whose timeout would count, and call `waiting` several times a second.
  void on_rank_0(const std::function<void()>& work, const std::function<void()>& waiting);

  // Replaces the values of all tensors by those of rank 0, with one broadcast for each dtype. The
  // tensors may be on any device.
  void broadcast_state(const NamedTensors& tensors);

  // Counts all collectives of this rank so far. With one rank all counts are 0.
  Traffic traffic() const;

  c10d::ProcessGroup* process_group() const;  // null with one rank; for lib/distributed only

 private:
  struct Impl;
  Group(const RankInfo& ranks, at::Device device);
  RankInfo ranks_;
  at::Device device_;
  std::unique_ptr<Impl> impl_;
};

// The device on which the tensors of the group's calls must be. With one rank nothing is sent, so
// any device will do, and this is the CPU.
c10::Device device_of(const Group& group);

// From now on the number of collectives that this rank has entered is also kept in `counter`, where
// a launcher can read it. The counter must live longer than the group. With one rank this does
// nothing.
void publish_collectives(const Group& group, std::atomic<int64_t>& counter);

// Throws std::logic_error that names the call and both devices if the tensor is on another device
// than the group. NCCL takes tensors of its own GPU alone.
void check_on_group_device(const char* call, c10::Device tensor, c10::Device group);

}  // namespace gantrain
