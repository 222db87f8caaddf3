// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "distributed/group.h"
#include "train/step.h"

namespace gantrain {

// What ranks ask of each other at the end of an iteration. Any rank may ask; all obey together.
struct RankRequests {
  bool stop = false;
  bool save = false;
};

// One small all-reduce at the end of each iteration: BatchNorm's running statistics become the mean
// over ranks (dist.broadcast_buffers), a recipe's Shared sums those of the global batch, and
// requests are heard by all.
//
// A forward pass that overflowed leaves no trace, as its step leaves none (train/gradient_guard.h):
// running statistics that are not finite become what they were, and a sum that is not is not handed
// back.
class SharedStatistics {
 public:
  SharedStatistics(const std::vector<PlayerState>& players,
                   std::vector<Shared*> sums,
                   std::shared_ptr<Group> group,
                   BufferSync buffers);

  // Training begins, or goes on: what there is now counts as good.
  void begin();
  // `mine` holds what this rank asks for; returns what any rank asked for. On a GPU, where reading
  // the answer waits for the device, requests are exchanged at every 16th iteration only.
  RankRequests reduce(const RankRequests& mine, int64_t iteration);

 private:
  at::Tensor add_up(const RankRequests& mine);
  void undo_overflows();
  void move_shared(int64_t iteration);
  std::shared_ptr<Group> group_;
  BufferSync mode_;
  std::vector<at::Tensor> buffers_;  // running means and variances
  std::vector<at::Tensor> before_;   // an iteration ago
  std::vector<Shared*> sums_;
  at::Device device_ = at::kCPU;
  at::ScalarType dtype_ = at::kFloat;
};

}  // namespace gantrain
