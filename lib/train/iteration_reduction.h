// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "distributed/group.h"
#include "gan/phase.h"
#include "train/rank_requests.h"

namespace gantrain {

// The sums that the micro-batches of a phase on this rank returned, added up.
struct PhaseSums {
  const Phase* phase;
  Statistics sums;
};

// Ends each iteration with one small all-reduce: running statistics become their mean over ranks
// (dist.broadcast_buffers), phases' sums become sums over the global batch, and every rank learns
// of the requests of all ranks.
//
// A forward pass that overflowed has no effect, as the optimizer step after it has none
// (train/gradient_guard.h): running statistics that are not finite get their previous values back,
// and a sum that is not finite changes nothing.
class IterationReduction {
 public:
  // `running`: the running statistics of all networks, the tensors themselves.
  IterationReduction(std::vector<at::Tensor> running,
                     std::vector<AllReducedSum> sums,
                     const at::TensorOptions& like,
                     std::shared_ptr<Group> group,
                     BufferSync mode);

  // Begins or resumes training: the present running statistics count as good.
  void begin();
  // Adds `phases` up over ranks and hands each sum to its AllReducedSum. `mine` holds the requests
  // of this rank. Returns the requests of all ranks; RequestExchange says at which iterations they
  // arrive.
  RankRequests run(std::vector<PhaseSums>& phases, const RankRequests& mine, int64_t iteration);

 private:
  at::Tensor add_up(std::vector<PhaseSums>& phases, const RankRequests& mine);
  void undo_overflows();
  void hand_back(const std::vector<PhaseSums>& phases);

  std::shared_ptr<Group> group_;
  BufferSync mode_;
  at::TensorOptions like_;
  std::vector<at::Tensor> running_;
  std::vector<at::Tensor> before_;  // running_ an iteration ago
  std::vector<AllReducedSum> sums_;
  RequestExchange requests_;
};

}  // namespace gantrain
