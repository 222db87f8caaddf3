// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "distributed/group.h"
#include "gan/phase.h"
#include "train/rank_requests.h"

namespace gantrain {

// What a phase's micro-batches on this rank added up to.
struct PhaseSums {
  const Phase* phase;
  Statistics sums;
};

// One small all-reduce ends each iteration: running statistics become the mean over ranks
// (dist.broadcast_buffers), phases' sums those of the global batch, and requests are heard by all.
//
// A forward pass that overflowed leaves no trace, as its step leaves none (train/gradient_guard.h):
// running statistics that are not finite become what they were, and a sum that is not finite moves
// nothing.
class IterationReduction {
 public:
  // `running`: the running statistics of all networks, the tensors themselves.
  IterationReduction(std::vector<at::Tensor> running,
                     std::vector<AllReducedSum> sums,
                     const at::TensorOptions& like,
                     std::shared_ptr<Group> group,
                     BufferSync mode);

  // Training begins, or goes on: the running statistics that there are count as good.
  void begin();
  // Adds `phases` up over ranks and hands each sum to its AllReducedSum. `mine` holds what this
  // rank asks for; returns what any rank has asked for (RequestExchange says when).
  RankRequests run(std::vector<PhaseSums>& phases, const RankRequests& mine, int64_t iteration);

 private:
  at::Tensor add_up(std::vector<PhaseSums>& phases, const RankRequests& mine);
  void undo_overflows();
  void hand_back(const std::vector<PhaseSums>& phases);

  std::shared_ptr<Group> group_;
  BufferSync mode_;
  at::TensorOptions like_;
  std::vector<at::Tensor> running_;
  std::vector<at::Tensor> before_;  // an iteration ago
  std::vector<AllReducedSum> sums_;
  RequestExchange requests_;
};

}  // namespace gantrain
