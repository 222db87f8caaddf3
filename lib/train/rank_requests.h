// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

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
  double last_;         // monotonic seconds at the last packed()
  double seconds_ = 0;  // that an iteration took here by then
  int64_t due_ = 0;     // iteration of the next look
  int64_t every_ = 16;  // iterations between two looks, from the last look
  at::Tensor aside_;    // copy of the last look's sum on the host, or undefined
  std::optional<c10::Event> copied_;
};

}  // namespace gantrain
