// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "core/safetensors.h"
#include "distributed/options.h"
#include "distributed/traffic.h"

namespace c10d {
class ProcessGroup;
}

namespace gantrain {

struct Rendezvous {
  int64_t rank = 0;
  int64_t world = 1;
  std::string master_addr = "127.0.0.1";
  int64_t master_port = 0;
  int listen_fd = -1;            // rank 0: a listening socket to take over; -1: bind master_port
  bool store_is_served = false;  // someone else serves the store; rank 0 is a client too
  bool one_node = true;          // gloo talks over the loopback interface
};

// The ranks of a run. With one rank there is no process group and every call returns at once.
// Calls are collective: all ranks make the same calls in the same order. A rank that fails or
// disappears makes the others throw UserError(kEnvironment) naming the operation.
class Group {
 public:
  // Meets the other ranks, with a first all-reduce. Throws UserError(kEnvironment) with the
  // address, the rank and what can be done.
  static std::shared_ptr<Group> join(const Rendezvous& rendezvous,
                                     BackendKind backend,
                                     at::Device device,
                                     double timeout_seconds);
  ~Group();

  int64_t rank() const { return rank_; }
  int64_t world() const { return world_; }

  void sum_(at::Tensor& tensor);        // in place, over ranks
  void broadcast_(at::Tensor& tensor);  // rank 0's values
  void barrier();

  // Rank 0's parameters and buffers to all, as few messages as dtypes.
  void broadcast_state(const NamedTensors& tensors);

  // All collectives of this rank so far; nothing with one rank.
  Traffic traffic() const;

  c10d::ProcessGroup* process_group() const;  // null with one rank; for lib/distributed only

 private:
  struct Impl;
  Group(int64_t rank, int64_t world, at::Device device);
  int64_t rank_;
  int64_t world_;
  at::Device device_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantrain
