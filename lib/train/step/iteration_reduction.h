// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <memory>
#include <optional>
#include <vector>

#include "distributed/group.h"
#include "gan/phase.h"

namespace gantrain {

// What a rank asks of all ranks. Any rank may ask; all obey at the end of the same iteration.
struct RankRequests {
  bool stop = false;
  bool save = false;
};

// Brings requests from every rank to all ranks, as part of the all-reduce that ends an iteration.
// Where reads cost nothing, all ranks learn of them in the same iteration. On other devices the sum
// is copied to the host while the device works on, and read about a second later. All ranks look
// next at the same iteration: it follows from the seconds that rank 0 takes for an iteration, which
// are part of the sum.
class RequestExchange {
 public:
  static constexpr int64_t kNumbers = 3;

  RequestExchange(const at::TensorOptions& like, int64_t rank);

  // Returns this rank's part of the sum, [kNumbers] with the type and device of `like`.
  at::Tensor packed(const RankRequests& mine);
  // Takes the `sum` [kNumbers] over all ranks at the end of that iteration, and returns what any
  // rank has asked for.
  RankRequests heard(const at::Tensor& sum, int64_t iteration);

 private:
  RankRequests read(const at::Tensor& on_host);

  at::TensorOptions like_;
  int64_t rank_;
  double last_;              // monotonic seconds at the last packed()
  double seconds_ = 0;       // that an iteration took here by then
  int64_t due_ = 0;          // iteration of the next look
  int64_t every_ = 16;       // iterations between two looks, from the last look
  at::Tensor pending_copy_;  // copy of the last look's sum on the host, or undefined
  std::optional<c10::Event> copied_;
};

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
